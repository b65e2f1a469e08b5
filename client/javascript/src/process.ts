/** A process on the server, and its events. */
import type { PieClient } from './client.js';
import type { Frame } from './connection.js';
import { again } from './connection.js';
import { IntegrityError, PieError, ProcessEnded, ProcessError, RequestTimeout } from './errors.js';
import { Event, isLast } from './events.js';
import type { ProcessEvent } from './events.js';
import { IncomingFile } from './incoming_file.js';

/** The client's internal calls that a process needs. */
export interface Owner {
  waiting(): () => void;
  got(size: number, whose: string): void;
  took(size: number): void;
}

const sizeOf = (said: ProcessEvent): number => said.value.length;

/**
 * A process on the server. `recv`, or `for await (const { event, value } of process)`, gives its
 * events in order. Dropping this object or losing the connection does not end the process.
 */
export class Process implements AsyncIterable<ProcessEvent> {
  #events: (ProcessEvent | PieError)[] = [];
  #first = 0; // index of the next event to take
  #wakes: (() => void)[] = [];
  #file: IncomingFile | undefined;
  #end: ProcessEvent | undefined;
  #lastTaken = false;
  #discards = false;
  #fault: PieError | undefined;
  #seen: number | undefined;

  /** Created by PieClient. */
  constructor(
    private readonly client: PieClient,
    private readonly owner: Owner,
    readonly processId: string,
    seen: number | undefined,
  ) {
    this.#seen = seen;
  }

  // --- listening ---------------------------------------------------------------------------------

  /**
   * Returns the next event. Throws ProcessEnded after the last one. If the connection broke, throws
   * ConnectionLost after all events that arrived before were taken.
   */
  async recv(timeoutMs = Infinity): Promise<ProcessEvent> {
    const due = Date.now() + timeoutMs;
    while (this.#first === this.#events.length) {
      if (this.#lastTaken || (this.#discards && this.#end)) {
        throw new ProcessEnded(`process ${this.processId} has ended`);
      }
      if (this.#fault) throw again(this.#fault);
      const done = this.owner.waiting();
      const came = await this.#arrival(due - Date.now());
      done();
      if (!came) {
        const text = `process ${this.processId} sent no event within ${timeoutMs / 1000} s`;
        throw new RequestTimeout(text);
      }
    }
    const taken = this.#events[this.#first++] as ProcessEvent | PieError;
    if (this.#first > 1024 || this.#first === this.#events.length) {
      this.#events.splice(0, this.#first);
      this.#first = 0;
    }
    if (taken instanceof PieError) throw taken;
    this.owner.took(sizeOf(taken));
    this.#lastTaken = isLast(taken);
    return taken;
  }

  /** Yields every event, including the last one. */
  async *[Symbol.asyncIterator](): AsyncIterator<ProcessEvent> {
    while (!this.#lastTaken) yield await this.recv();
  }

  /**
   * Yields the text that the process sends and prints. Throws ProcessError if it fails. Skips other
   * events. Afterwards `returnValue` holds the return value.
   */
  async *stream(): AsyncGenerator<string> {
    for await (const { event, value } of this) {
      if (event === Event.Stdout) yield value;
      else if (event === Event.Error) throw new ProcessError(value);
    }
  }

  /** Returns all text that the process sends and prints until it ends. */
  async text(): Promise<string> {
    const parts: string[] = [];
    for await (const part of this.stream()) parts.push(part);
    return parts.join('');
  }

  /** Waits for the end and returns the return value. Skips all other events. */
  async result(): Promise<string> {
    for await (const _ of this.stream());
    return this.returnValue ?? '';
  }

  /** The return value, or undefined before it has arrived. */
  get returnValue(): string | undefined {
    return this.#end?.event === Event.Return ? this.#end.value : undefined;
  }

  /** Whether the last event has arrived. */
  get ended(): boolean {
    return this.#end !== undefined;
  }

  /**
   * The number of events that have arrived. Another client can pass it to `attachProcess` to
   * continue from there. Undefined if the events are not numbered.
   */
  get seen(): number | undefined {
    return this.#seen;
  }

  /**
   * Drops all events but the last, now and in future, so that unread events do not stop the
   * connection from reading.
   */
  discard(): void {
    this.#discards = true;
    for (const said of this.#events.splice(0).slice(this.#first)) {
      if (!(said instanceof PieError)) this.owner.took(sizeOf(said));
    }
    this.#first = 0;
  }

  // --- speaking ----------------------------------------------------------------------------------

  /** Sends a message to the process, which gets it from `session.receive`. */
  signal(message: string): Promise<void> {
    return this.client.signalProcess(this.processId, message);
  }

  /** Sends a file to the process, which gets it from `session.receiveFile`. */
  transferFile(data: Uint8Array): Promise<void> {
    return this.client.transferFile(this.processId, data);
  }

  /** Cancels the process. Its last event will be the error `cancelled`. */
  terminate(): Promise<void> {
    return this.client.terminateProcess(this.processId);
  }

  // --- for the client ----------------------------------------------------------------------------

  /** @internal Takes a frame of this process. */
  take(frame: Frame): void {
    const number = frame['seq'] as number | undefined;
    if (number !== undefined && this.#seen !== undefined && number <= this.#seen) return;
    const said = frame['type'] === 'file' ? this.#takeChunk(frame) : toEvent(frame);
    if (said === undefined) return;
    if (number !== undefined) this.#seen = number;
    if (!(said instanceof PieError) && isLast(said)) this.#end = said;
    if (!this.#discards) {
      this.#events.push(said);
      if (!(said instanceof PieError)) this.owner.got(sizeOf(said), this.processId);
    }
    this.#wake();
  }

  /** @internal Called when the connection broke. */
  lost(fault: PieError): void {
    this.#fault = fault;
    this.#file = undefined;
    this.#wake();
  }

  /** @internal Called when the process is attached again. */
  back(): void {
    this.#fault = undefined;
  }

  #takeChunk(frame: Frame): ProcessEvent | PieError | undefined {
    const index = frame['chunk_index'] as number;
    const total = frame['total_chunks'] as number;
    if (index === 0) this.#file = new IncomingFile(String(frame['file_hash']), total);
    const whole = this.#file?.add(index, total, frame['chunk_data'] as Uint8Array);
    if (whole === undefined) return undefined;
    this.#file = undefined;
    return whole instanceof IntegrityError ? whole : { event: Event.File, value: whole };
  }

  #wake(): void {
    for (const wake of this.#wakes.splice(0)) wake();
  }

  /** Waits for an event. Returns false if none arrived in time. */
  #arrival(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
      this.#wakes.push(wake);
      if (!Number.isFinite(ms)) return;
      timer = setTimeout(() => {
        this.#wakes = this.#wakes.filter((other) => other !== wake);
        resolve(false);
      }, ms);
    });
  }
}

const KINDS = new Set<string>(Object.values(Event));

function toEvent(frame: Frame): ProcessEvent {
  const event = frame['event'] as string;
  if (!KINDS.has(event)) throw new TypeError(`unknown kind of event: '${event}'`);
  return { event, value: String(frame['value']) } as ProcessEvent;
}
