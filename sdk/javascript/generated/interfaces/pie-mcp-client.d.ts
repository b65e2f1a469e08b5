/// <reference path="./pie-mcp-types.d.ts" />
declare module 'pie:mcp/client' {
  export function availableServers(): Array<string>;
  export function connect(name: string): Session;
  export type Json = import('pie:mcp/types').Json;
  export type Error = import('pie:mcp/types').Error;
  
  export class Session implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    listTools(): Json;
    callTool(name: string, args: Json): Json;
    listResources(): Json;
    readResource(uri: string): Json;
    listPrompts(): Json;
    getPrompt(name: string, args: Json): Json;
    [Symbol.dispose](): void;
  }
}
