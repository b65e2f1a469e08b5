/** MCP servers that run beside this client. */
// The requests of the engine are relayed to them.
//
// A server is a program that speaks the Model Context Protocol over its stdin and stdout, one JSON message
// a line. A server that dies is started again by the next request, after a pause that grows.
import { startProgram } from '#platform';
import { PieError } from './errors.js';
import type { Program } from './program.js';

/** The longest message of a server. */
export const MAX_LINE_BYTES = 8 << 20;
const START_MS = 30_000;
const REQUEST_MS = 60_000;
const MAX_PAUSE_MS = 10_000;
const STABLE_MS = 60_000; // a server that ran for this long is restarted without a pause
const PROTOCOL = '2025-06-18';
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const UNREACHABLE = -32000;
const TIMEOUT = -32003;

/** A JSON-RPC error of an MCP server. */
export class McpError extends PieError {
  /** Made by the client; programs catch it. */
  constructor(
    readonly code: number,
    text: string,
    readonly data?: unknown,
  ) {
    super(text);
  }
  /** The error as the object that goes to the server. */
  toJSON(): unknown {
    return { code: this.code, message: this.message, data: this.data };
  }
}

interface Waiting {
  resolve(result: unknown): void;
  reject(error: McpError): void;
}

/** One server. `start` runs it; `request` asks it, and starts it again if it has died. */
export class StdioServer {
  #program: Program | undefined;
  #starting: Promise<void> | undefined;
  #number = 0;
  #waiting = new Map<number, Waiting>();
  #failures = 0;
  #startedAt = 0;

  constructor(
    readonly name: string,
    private readonly command: string,
    private readonly args: string[],
  ) {}

  start(): Promise<void> {
    this.#starting ??= this.#start().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async request(method: string, params: unknown): Promise<unknown> {
    if (!this.#program) await this.start();
    return this.#ask(method, params, REQUEST_MS);
  }

  async stop(): Promise<void> {
    const program = this.#program;
    this.#program = undefined;
    await program?.stop();
  }

  async #start(): Promise<void> {
    if (performance.now() - this.#startedAt > STABLE_MS) this.#failures = 0;
    if (this.#failures > 0) {
      const pause = Math.min(100 * 2 ** this.#failures, MAX_PAUSE_MS);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    this.#failures++;
    this.#startedAt = performance.now();
    try {
      this.#program = await startProgram(this.command, this.args, MAX_LINE_BYTES, {
        onLine: (line) => this.#take(line),
        onEnd: (why) => this.#ended(why),
      });
    } catch (error) {
      const why = (error as Error).message;
      throw new McpError(UNREACHABLE, `cannot start the MCP server '${this.name}': ${why}`);
    }
    const hello = {
      protocolVersion: PROTOCOL,
      capabilities: {},
      clientInfo: { name: 'pie-client', version: '0.1.0' },
    };
    try {
      await this.#ask('initialize', hello, START_MS);
      this.#send({ method: 'notifications/initialized' });
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  #ask(method: string, params: unknown, timeoutMs: number): Promise<unknown> {
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        if (this.#program) {
          this.#send({ method: 'notifications/cancelled', params: { requestId: id, reason: 'timed out' } });
        }
        const text = `the MCP server '${this.name}' did not answer within ${timeoutMs / 1000} s`;
        reject(new McpError(TIMEOUT, text));
      }, timeoutMs);
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(id);
      };
      this.#waiting.set(id, {
        resolve: (result) => (done(), resolve(result)),
        reject: (error) => (done(), reject(error)),
      });
      if (this.#program) this.#send({ id, method, params });
      else this.#waiting.get(id)?.reject(this.#gone('it was not started'));
    });
  }

  #send(message: object): void {
    this.#program?.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  #gone(why: string): McpError {
    return new McpError(UNREACHABLE, `the MCP server '${this.name}' is not running: ${why}`);
  }

  #ended(why: string): void {
    this.#program = undefined;
    for (const waiting of [...this.#waiting.values()]) waiting.reject(this.#gone(why));
  }

  #take(line: string): void {
    let message: Record<string, unknown>;
    try {
      message = JSON.parse(line) as Record<string, unknown>;
    } catch {
      return; // some servers print other text too
    }
    if (typeof message !== 'object' || message === null) return;
    const { id, method, error, result } = message;
    if (method !== undefined) {
      if (id === undefined) return;
      const refusal = { code: METHOD_NOT_FOUND, message: `no method is named ${String(method)}` };
      this.#send(method === 'ping' ? { id, result: {} } : { id, error: refusal });
      return;
    }
    const waiting = this.#waiting.get(id as number);
    if (!waiting) return;
    if (typeof error !== 'object' || error === null) return waiting.resolve(result ?? null);
    const { code, message: text, data } = error as Record<string, unknown>;
    waiting.reject(new McpError(Number.isInteger(code) ? (code as number) : UNREACHABLE, String(text), data));
  }
}

/** Serves an `mcp_request`: whether it succeeded, and the JSON of its result or error. */
export async function relay(
  servers: Map<string, StdioServer>,
  frame: Record<string, unknown>,
): Promise<{ ok: boolean; result: string }> {
  try {
    const server = servers.get(String(frame['server_name']));
    if (!server) {
      throw new McpError(UNREACHABLE, `this client runs no server '${String(frame['server_name'])}'`);
    }
    let params: unknown;
    try {
      params = JSON.parse(String(frame['params'] || '{}'));
    } catch {
      throw new McpError(INVALID_PARAMS, 'the parameters are not JSON');
    }
    const result = await server.request(String(frame['method']), params);
    return { ok: true, result: JSON.stringify(result) };
  } catch (error) {
    const fault = error instanceof McpError ? error : new McpError(UNREACHABLE, String(error));
    return { ok: false, result: JSON.stringify(fault) };
  }
}
