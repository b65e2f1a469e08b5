declare module 'pie:mcp/types' {
  export type Json = string;
  /**
   * A JSON-RPC error.
   */
  export interface Error {
    code: number,
    message: string,
    data?: Json,
  }
}
