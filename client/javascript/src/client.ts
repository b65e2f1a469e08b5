/** The connection to a server, and what a client can ask of it. */
import { readFile } from '#platform';
import { bound } from './binding.js';
import { fromBase64, toBase64 } from './bytes.js';
import { Connection } from './connection.js';
import type { Frame } from './connection.js';
import { AuthError, ConnectionLost, PieError, ServerError, TooLarge } from './errors.js';
import { hashOf } from './hash.js';
import { ParsedPrivateKey } from './keys.js';
import { CHUNK_BYTES } from './limits.js';
import { relay, StdioServer } from './mcp.js';
import { Process } from './process.js';
import type { Owner } from './process.js';
import type { SocketOptions } from './socket.js';

/** A parsed key, the text of a key, or (in Node) the path of a key file. */
export type Key = ParsedPrivateKey | string;
/** The bytes of a component, or (in Node) its path. */
export type Wasm = Uint8Array | string;

/** How a client connects. */
export interface ClientOptions extends SocketOptions {
  /** The client authenticates with this name when it connects. Without it, call `authenticate`. */
  username?: string;
  /** The key that proves the username, if the server asks for a proof. */
  key?: Key;
  /** The token in the server's file `server-<port>.token`, instead of a username. */
  token?: string;
  /** The time-out of each request; Infinity waits forever. */
  timeoutMs?: number;
}

/** A running process. */
export interface ProcessInfo {
  /** The id that `attachProcess` takes. */
  process_id: string;
  /** The name and version of its program. */
  inferlet: string;
  /** The user who launched it. */
  username: string;
  /** Whether a client is attached to it. */
  attached: boolean;
  /** The port on which a daemon answers; processes that are no daemons have none. */
  port?: number;
}

const INSTALL_MS = 600_000; // the server compiles the component before it answers

/**
 * A connection to a server.
 *
 *     const client = await PieClient.connect('ws://127.0.0.1:8080', { username: 'ada' });
 *     const process = await client.launchProcess('text-completion', { prompt: 'Hello' });
 *     for await (const text of process.stream()) console.log(text);
 */
export class PieClient {
  #connection: Connection | undefined;
  #processes = new Map<string, Process>();
  #mcpServers = new Map<string, StdioServer>();
  #uploading: Promise<unknown> = Promise.resolve();
  #login: (() => Promise<void>) | undefined;
  readonly #timeoutMs: number;
  readonly #owner: Owner = {
    waiting: () => this.#connection?.waiting() ?? (() => {}),
    got: (size, whose) => this.#connection?.got(size, whose),
    took: (size) => this.#connection?.took(size),
  };

  /** A client that is not connected yet. `uri` is such as `ws://127.0.0.1:8080`. */
  constructor(
    readonly uri: string,
    private readonly options: ClientOptions = {},
  ) {
    const { username, key, token, timeoutMs = 60_000 } = options;
    this.#timeoutMs = timeoutMs;
    if (token !== undefined) this.#login = () => this.authByToken(token);
    else if (username !== undefined) this.#login = () => this.authenticate(username, key);
  }

  // --- connecting --------------------------------------------------------------------------------

  /** Creates a client and connects it. */
  static async connect(uri: string, options?: ClientOptions): Promise<PieClient> {
    const client = new PieClient(uri, options);
    await client.connect();
    return client;
  }

  /** Connects, and authenticates if the options name a user. Does nothing while connected. */
  async connect(): Promise<void> {
    if (this.#connection && !this.#connection.fault) return;
    const onFrame = (frame: Frame) => this.#onFrame(frame);
    const onLost = (fault: PieError) => {
      for (const process of this.#processes.values()) process.lost(fault);
    };
    this.#connection = await Connection.open(this.uri, onFrame, onLost, this.options);
    try {
      await this.#login?.();
    } catch (error) {
      await this.#connection.close();
      throw error;
    }
  }

  /**
   * Closes the connection, and stops the MCP servers that this client runs. Processes keep running;
   * pending calls throw ConnectionLost.
   */
  async close(): Promise<void> {
    await this.#connection?.close();
    const servers = [...this.#mcpServers.values()];
    this.#mcpServers.clear();
    await Promise.all(servers.map((server) => server.stop()));
  }

  /** Closes the connection. `await using` calls it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /**
   * Connects again, authenticates as before and attaches to every process that has not ended. Their
   * events continue where they stopped; none is lost as long as the server buffers them. `recv` of a
   * process that no longer exists throws ServerError.
   */
  async reconnect(attempts = 5): Promise<void> {
    await this.#connection?.close();
    for (let attempt = 0; ; attempt++) {
      try {
        await this.connect();
        break;
      } catch (error) {
        if (!(error instanceof ConnectionLost) || attempt + 1 >= attempts) throw error;
        await new Promise((resolve) => setTimeout(resolve, Math.min(100 * 2 ** attempt, 5000)));
      }
    }
    for (const name of this.#mcpServers.keys()) {
      await this.#ask('register_mcp_server', { name, transport: 'stdio' });
    }
    for (const process of [...this.#processes.values()]) {
      try {
        await this.#attach(process.processId, process.seen, () => process.back());
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        this.#processes.delete(process.processId);
        process.lost(error);
      }
    }
  }

  /** States the username, and proves it if the server requires a proof. */
  async authenticate(username: string, key?: Key): Promise<void> {
    const parsed = await parsedKey(key);
    await this.#authenticating(async () => {
      let challenge = fromBase64(await this.#ask('auth_identify', { username }));
      if (!challenge) return; // the server requires no proof and sent plain text
      if (!parsed) {
        throw new AuthError(`the server requires a proof: pass the private key of ${username}`);
      }
      challenge = bound(challenge, this.#connection?.certificateHash);
      await this.#ask('auth_prove', { signature: toBase64(await parsed.sign(challenge)) });
    });
    this.#login = () => this.authenticate(username, parsed);
  }

  /** Authenticates with the token in the server's file `server-<port>.token`. */
  async authByToken(token: string): Promise<void> {
    await this.#authenticating(() => this.#ask('auth_by_token', { token }));
    this.#login = () => this.authByToken(token);
  }

  async #authenticating(steps: () => Promise<unknown>): Promise<void> {
    try {
      await steps();
    } catch (error) {
      throw error instanceof ServerError ? new AuthError(error.message) : error;
    }
  }

  // --- programs ----------------------------------------------------------------------------------

  /**
   * Returns whether `name` or `name@version` is installed. With a component or a manifest, also
   * checks that the installed one is equal.
   */
  async checkProgram(inferlet: string, wasm?: Wasm, manifest?: string): Promise<boolean> {
    const [name, version = ''] = inferlet.split('@');
    const answer = await this.#ask('check_program', {
      name,
      version,
      wasm_hash: wasm === undefined ? null : hashOf(await bytesOf(wasm)),
      manifest_hash:
        manifest === undefined ? null : hashOf(new TextEncoder().encode(await textOf(manifest))),
    });
    return answer === 'true';
  }

  /** Returns the latest installed version of a program, such as `1.2.3`. */
  async resolveVersion(name: string): Promise<string> {
    return JSON.parse(await this.query('program', name)).version;
  }

  /**
   * Installs a component. `manifest` is the text of a Pie.toml or (in Node) its path. An installed
   * version is replaced only with `forceOverwrite`.
   */
  async installProgram(wasm: Wasm, manifest: string, forceOverwrite = false): Promise<void> {
    const component = await bytesOf(wasm);
    const fields = {
      program_hash: hashOf(component),
      manifest: await textOf(manifest),
      force_overwrite: forceOverwrite,
    };
    await this.#upload('add_program', component, fields, INSTALL_MS);
  }

  // --- processes ---------------------------------------------------------------------------------

  /**
   * Launches `name` (the latest version) or `name@version`. A string input is sent unchanged, any
   * other value as JSON. Without `captureOutputs`, the process's stdout and stderr are not sent; its
   * messages still are.
   */
  async launchProcess(
    inferlet: string,
    input: unknown = {},
    captureOutputs = true,
    tokenBudget?: number,
  ): Promise<Process> {
    let process: Process | undefined;
    const fields = {
      inferlet,
      input: jsonOf(input),
      capture_outputs: captureOutputs,
      token_budget: tokenBudget ?? null,
      seen: 0,
    };
    await this.#ask('launch_process', fields, (id) => (process = this.#adopt(id, 0)));
    return process as unknown as Process;
  }

  /**
   * Attaches to a process of this user. The buffered events come first. With `seen`, the number of
   * events received before (`Process.seen`), exactly the later events come.
   */
  async attachProcess(processId: string, seen?: number): Promise<Process> {
    let process: Process | undefined;
    await this.#attach(processId, seen, () => (process = this.#adopt(processId, seen)));
    return process as unknown as Process;
  }

  /** Returns the user's running processes. */
  async listProcesses(): Promise<ProcessInfo[]> {
    return JSON.parse(await this.#ask('list_processes'));
  }

  /** Sends a message to a process. */
  async signalProcess(processId: string, message: string): Promise<void> {
    await this.#ask('signal_process', { process_id: processId, message });
  }

  /** Sends a file to a process. */
  async transferFile(processId: string, data: Uint8Array): Promise<void> {
    const fields = { process_id: processId, file_hash: hashOf(data) };
    await this.#upload('transfer_file', data, fields, this.#timeoutMs);
  }

  /** Cancels a process. */
  async terminateProcess(processId: string): Promise<void> {
    await this.#ask('terminate_process', { process_id: processId });
  }

  /**
   * Lets an HTTP inferlet answer on a port of the server's machine; 0 chooses a free one. Returns the
   * daemon's id, for `terminateProcess` and `restartDaemon`; `listProcesses` shows its port.
   */
  launchDaemon(inferlet: string, port: number, input: unknown = {}): Promise<string> {
    return this.#ask('launch_daemon', { inferlet, port, input: jsonOf(input) });
  }

  /**
   * Ends the requests that a daemon is answering, and looks up its program again: a daemon that was
   * launched without a version gets the newest one. Its id, port and input stay. Returns the program
   * that answers now.
   */
  restartDaemon(processId: string): Promise<string> {
    return this.#ask('restart_daemon', { process_id: processId });
  }

  /**
   * Starts an MCP server and offers it to the processes of this client: `command` with `args`, which
   * speaks MCP over stdin and stdout. Throws McpError if the server does not start. Node only.
   */
  async registerMcpServer(
    name: string,
    transport = 'stdio',
    command?: string,
    args?: string[],
    url?: string,
  ): Promise<void> {
    if (transport !== 'stdio' || command === undefined) {
      throw new PieError(
        `transport '${transport}': this client runs servers of the transport 'stdio', which need a command`,
      );
    }
    const server = new StdioServer(name, command, args ?? []);
    await server.start();
    await this.#mcpServers.get(name)?.stop();
    this.#mcpServers.set(name, server);
    await this.#ask('register_mcp_server', { name, transport, command, args, url });
  }

  // --- the rest ----------------------------------------------------------------------------------

  /** Returns the round-trip time to the server, in milliseconds. */
  async ping(): Promise<number> {
    const began = performance.now();
    await this.#ask('ping');
    return performance.now() - began;
  }

  /** Returns JSON. `subject` is `model_status`, or `program` with its name in `record`. */
  query(subject: string, record = ''): Promise<string> {
    return this.#ask('query', { subject, record });
  }

  // --- inside ------------------------------------------------------------------------------------

  #live(): Connection {
    if (!this.#connection) throw new ConnectionLost('not connected: await connect() first');
    return this.#connection;
  }

  async #ask(type: string, fields: Frame = {}, onOk?: (result: string) => void): Promise<string> {
    return this.#live().request(type, this.#timeoutMs, fields, onOk);
  }

  #adopt(processId: string, seen: number | undefined): Process {
    const text = `this client attached to process ${processId} again; use the newer Process`;
    this.#processes.get(processId)?.lost(new PieError(text));
    const process = new Process(this, this.#owner, processId, seen);
    this.#processes.set(processId, process);
    return process;
  }

  async #attach(processId: string, seen: number | undefined, onOk: () => void): Promise<void> {
    await this.#ask('attach_process', { process_id: processId, seen }, onOk);
  }

  /** Uploads in chunks, one upload at a time, because the server assembles one at a time. */
  #upload(type: string, data: Uint8Array, fields: Frame, timeoutMs: number): Promise<void> {
    const total = Math.max(1, Math.ceil(data.length / CHUNK_BYTES));
    const upload = this.#uploading.then(async () => {
      const connection = this.#live();
      const [number, pending] = connection.begin();
      for (let index = 0; index < total && !pending.settled; index++) {
        await connection.send(type, {
          corr_id: number,
          ...fields,
          chunk_index: index,
          total_chunks: total,
          chunk_data: data.subarray(index * CHUNK_BYTES, (index + 1) * CHUNK_BYTES),
        });
      }
      await connection.finish(number, pending, timeoutMs);
    });
    this.#uploading = upload.catch(() => {});
    return upload;
  }

  async #serveMcp(frame: Frame): Promise<void> {
    const corr_id = frame['corr_id'];
    const { ok, result } = await relay(this.#mcpServers, frame);
    try {
      await this.#connection?.send('mcp_response', { corr_id, ok, result });
    } catch (error) {
      if (!(error instanceof TooLarge)) return; // the connection is gone, and so is the request
      await this.#connection?.send('mcp_response', { corr_id, ok: false, result: error.message });
    }
  }

  #onFrame(frame: Frame): void {
    if (frame['type'] === 'mcp_request') return void this.#serveMcp(frame);
    const process = this.#processes.get(frame['process_id'] as string);
    // Ignores other processes, and kinds of frames that this client does not know.
    if (!process || (frame['type'] !== 'process_event' && frame['type'] !== 'file')) return;
    process.take(frame);
    if (process.ended) this.#processes.delete(process.processId);
  }
}

const jsonOf = (input: unknown): string =>
  typeof input === 'string' ? input : JSON.stringify(input ?? {});

async function bytesOf(wasm: Wasm): Promise<Uint8Array> {
  return typeof wasm === 'string' ? readFile(wasm) : wasm;
}

async function textOf(manifest: string): Promise<string> {
  if (manifest.includes('[')) return manifest; // the text itself: a manifest has a [package]
  return new TextDecoder().decode(await readFile(manifest));
}

async function parsedKey(key: Key | undefined): Promise<ParsedPrivateKey | undefined> {
  if (typeof key !== 'string') return key;
  if (key.includes('-----BEGIN')) return ParsedPrivateKey.parse(key);
  return ParsedPrivateKey.parse(new TextDecoder().decode(await readFile(key)));
}
