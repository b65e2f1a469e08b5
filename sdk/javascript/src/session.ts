/** The channel to the client that launched this inferlet. */
import * as raw from 'pie:core/session';
import * as fallible from 'pie:plus/fallible';
import * as check from './check.ts';
import { arrival } from './inbox.ts';
import { encode } from './json.ts';

/** Sends to the client: strings verbatim, everything else as JSON. Throws when the text is too long. */
export function send(message: unknown): void {
  fallible.send(encode(message));
}

/** Sends bytes, which the client receives as a file. Throws when they are too long. */
export function sendFile(data: Uint8Array): void {
  fallible.sendFile(check.bytes('data', data));
}

/** A wait that can be given up: `receive({ signal: AbortSignal.timeout(1000) })`. */
export interface WaitOptions {
  /** Gives the wait up when it is aborted; the next message then goes to another call. */
  signal?: AbortSignal | undefined;
}

/**
 * The client's next message; signals come here too. Calls that wait at once get one message each. A call
 * that has lost a `Promise.race` still waits, and takes the next message: give it up by a signal instead.
 */
export async function receive(options: WaitOptions = {}): Promise<string> {
  return present(await arrival(raw.receive(), options.signal));
}

/** The client's next file. Calls that wait at once get one file each. */
export async function receiveFile(options: WaitOptions = {}): Promise<Uint8Array> {
  return present(await arrival(raw.receiveFile(), options.signal));
}

function present<T>(value: T | undefined): T {
  if (value !== undefined) return value;
  throw new Error('no client is attached: it has left or detached. Receive again to wait for the next one');
}
