// One WebSocket. It matches responses to requests by number and passes all other frames on.
//
// It reads only while there is room for further events or while a call waits. So a process whose
// events the program does not take waits at the server, instead of filling this client's memory.
// Browsers cannot stop reading.
import { openSocket } from '#platform';
import { decode, encode } from '@msgpack/msgpack';
import { ConnectionLost, PieError, RequestTimeout, ServerError, TooLarge } from './errors.js';
import { MAX_FRAME_BYTES, MAX_UNREAD_BYTES, UNREAD_BYTES, UNREAD_EVENTS } from './limits.js';
import type { Socket, SocketOptions } from './socket.js';

export type Frame = Record<string, unknown>;
type OnOk = (result: string) => void;

const EVENT_OVERHEAD = 128;

/** A request in flight. `onOk` runs before any frame after the response is processed. */
export class Pending {
  readonly done: Promise<string>;
  settled = false;
  resolve!: (result: string) => void;
  reject!: (error: Error) => void;

  constructor(readonly onOk?: OnOk) {
    this.done = new Promise((resolve, reject) => {
      this.resolve = (result) => ((this.settled = true), resolve(result));
      this.reject = (error) => ((this.settled = true), reject(error));
    });
    this.done.catch(() => {}); // avoids an unhandled rejection if no call waits for it
  }
}

/** Created by `open`. When it breaks, every pending call fails, and it stays broken. */
export class Connection {
  fault: PieError | undefined;
  #socket!: Socket;
  #number = 0;
  #pending = new Map<number, Pending>();
  #waiters = 0;
  #unreadEvents = 0;
  #unreadBytes = 0;
  #paused = false;

  private constructor(
    private readonly onFrame: (frame: Frame) => void,
    private readonly onLost: (fault: PieError) => void,
  ) {}

  static async open(
    uri: string,
    onFrame: (frame: Frame) => void,
    onLost: (fault: PieError) => void,
    options: SocketOptions,
  ): Promise<Connection> {
    const connection = new Connection(onFrame, onLost);
    const handlers = {
      onMessage: (data: Uint8Array) => connection.#message(data),
      onClose: (reason: string) => connection.#fail(new ConnectionLost(reason)),
    };
    try {
      connection.#socket = await openSocket(uri, handlers, options);
    } catch (error) {
      if (error instanceof PieError) throw error;
      throw new ConnectionLost(`cannot connect to ${uri}: ${(error as Error).message}`);
    }
    return connection;
  }

  get certificateHash(): Uint8Array | undefined {
    return this.#socket.certificateHash;
  }

  async close(): Promise<void> {
    this.#fail(new ConnectionLost('this client was closed'));
    await this.#socket.close();
  }

  // --- requests ----------------------------------------------------------------------------------

  /** Returns a number for a request, and its future response. */
  begin(onOk?: OnOk): [number, Pending] {
    this.#check();
    this.#number = (this.#number + 1) >>> 0;
    const pending = new Pending(onOk);
    this.#pending.set(this.#number, pending);
    this.#look();
    return [this.#number, pending];
  }

  async send(type: string, fields: Frame): Promise<void> {
    this.#check();
    const data = encode({ type, ...fields }, { ignoreUndefined: true });
    if (data.length > MAX_FRAME_BYTES) {
      throw new TooLarge(
        `${type}: the message has ${data.length} bytes, but the server accepts at most ` +
          `${MAX_FRAME_BYTES}; send large data as a file`,
      );
    }
    await this.#socket.send(data);
  }

  /** Waits for the response and returns it. Throws if the server refused the request. */
  async finish(number: number, pending: Pending, timeoutMs: number): Promise<string> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    if (Number.isFinite(timeoutMs)) {
      timer = setTimeout(() => {
        const text = `the server did not answer within ${timeoutMs / 1000} s`;
        pending.reject(new RequestTimeout(text));
      }, timeoutMs);
    }
    try {
      return await pending.done;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(number);
    }
  }

  async request(type: string, timeoutMs: number, fields: Frame, onOk?: OnOk): Promise<string> {
    const [number, pending] = this.begin(onOk);
    try {
      await this.send(type, { corr_id: number, ...fields });
    } catch (error) {
      this.#pending.delete(number);
      throw error;
    }
    return this.finish(number, pending, timeoutMs);
  }

  // --- reading -----------------------------------------------------------------------------------

  /** Marks that a call waits for an event. The returned function ends the wait. */
  waiting(): () => void {
    this.#waiters++;
    this.#look();
    return () => {
      this.#waiters--;
    };
  }

  got(size: number, whose: string): void {
    this.#unreadEvents++;
    this.#unreadBytes += size + EVENT_OVERHEAD;
    if (this.#unreadBytes > MAX_UNREAD_BYTES) {
      throw new ConnectionLost(
        `${this.#unreadBytes >> 20} MiB of events were not taken, the last of process ${whose}: ` +
          'call recv() or discard() of every process, or use one connection for each',
      );
    }
  }

  took(size: number): void {
    // After a reconnection, events are taken that the earlier connection had counted.
    this.#unreadEvents = Math.max(0, this.#unreadEvents - 1);
    this.#unreadBytes = Math.max(0, this.#unreadBytes - size - EVENT_OVERHEAD);
    if (this.#paused && this.#unreadEvents <= UNREAD_EVENTS / 2) this.#look();
  }

  /** Pauses or resumes reading, as needed. */
  #look(): void {
    const full = this.#unreadEvents > UNREAD_EVENTS || this.#unreadBytes > UNREAD_BYTES;
    const wanted = this.#pending.size > 0 || this.#waiters > 0 || this.fault !== undefined;
    const pause = full && !wanted;
    if (pause === this.#paused) return;
    this.#paused = pause;
    if (pause) this.#socket.pause();
    else this.#socket.resume();
  }

  #message(data: Uint8Array): void {
    if (this.fault) return;
    try {
      this.#take(decode(data) as Frame);
      this.#look();
    } catch (error) {
      const fault =
        error instanceof PieError
          ? error
          : new ConnectionLost(`the server sent an invalid message: ${String(error)}`);
      this.#fail(fault);
      void this.#socket.close();
    }
  }

  #take(frame: Frame): void {
    if (typeof frame !== 'object' || frame === null || typeof frame['type'] !== 'string') {
      throw new ConnectionLost('the server sent an invalid message: it has no type');
    }
    if (frame['type'] !== 'response') return this.onFrame(frame);
    const number = frame['corr_id'] as number;
    const pending = this.#pending.get(number);
    if (!pending || pending.settled) return; // no call waits for it any more
    this.#pending.delete(number);
    const result = String(frame['result']);
    if (frame['ok'] !== true) return pending.reject(new ServerError(result));
    pending.onOk?.(result);
    pending.resolve(result);
  }

  #check(): void {
    if (this.fault) throw again(this.fault);
  }

  #fail(fault: PieError): void {
    if (this.fault) return;
    this.fault = fault;
    this.#look();
    for (const pending of this.#pending.values()) pending.reject(again(fault));
    this.#pending.clear();
    this.onLost(fault);
  }
}

/** Copies an error, so that it has the stack trace of the present caller. */
export function again(fault: PieError): PieError {
  return new (fault.constructor as new (text: string) => PieError)(fault.message);
}
