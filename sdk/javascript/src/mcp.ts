/** Model Context Protocol servers that the client or the engine registered. */
import * as raw from 'pie:mcp/client';
import type { Error as RpcError } from 'pie:mcp/types';
import { text } from './check.ts';
import { encode } from './json.ts';

/** A JSON-RPC error of a server. Its text has the message, the code and the data: `no (code -7): {"why":1}`. */
export class McpError extends Error {
  /** The code of JSON-RPC. */
  readonly code: number;
  /** JSON, if the server sent any. */
  readonly data: string | undefined;

  /** Made by the SDK; programs catch it. */
  constructor(error: RpcError) {
    super(error.message);
    this.name = 'McpError';
    this.code = error.code;
    this.data = error.data;
  }

  /** The message, the code and the data as one text. */
  override toString(): string {
    return `${this.message} (code ${this.code})${this.data === undefined ? '' : `: ${this.data}`}`;
  }
}

/** Names of the registered servers. */
export const availableServers = (): string[] => raw.availableServers();

/** Opens a session with a server. An unknown name throws an McpError. */
export function connect(name: string): McpSession {
  return new McpSession(attempt(() => raw.connect(text('name', name))));
}

/** Every method gives the server's raw result, as JSON. */
export class McpSession implements Disposable {
  readonly #raw: raw.Session;

  /** @internal Use `mcp.connect`. */
  constructor(session: raw.Session) {
    this.#raw = session;
  }

  /** The server's tools. */
  listTools(): string {
    return attempt(() => this.#raw.listTools());
  }

  /** `args`: JSON text, or an object. */
  callTool(name: string, args: unknown = {}): string {
    return attempt(() => this.#raw.callTool(text('name', name), encode(args)));
  }

  /** The server's resources. */
  listResources(): string {
    return attempt(() => this.#raw.listResources());
  }

  /** The content of a resource. */
  readResource(uri: string): string {
    return attempt(() => this.#raw.readResource(text('uri', uri)));
  }

  /** The server's prompts. */
  listPrompts(): string {
    return attempt(() => this.#raw.listPrompts());
  }

  /** `args`: JSON text, or an object. */
  getPrompt(name: string, args: unknown = {}): string {
    return attempt(() => this.#raw.getPrompt(text('name', name), encode(args)));
  }

  /** Ends the session. `using` calls it. */
  [Symbol.dispose](): void {
    this.#raw[Symbol.dispose]();
  }
}

function attempt<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    const payload = (error as { payload?: RpcError }).payload;
    throw payload ? new McpError(payload) : error;
  }
}
