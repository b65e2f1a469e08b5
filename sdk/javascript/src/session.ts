/** The channel to the client that launched this inferlet. */
import * as raw from 'pie:core/session';
import { arrival, shared } from './inbox.ts';
import { encode } from './json.ts';

/** Sends to the client: strings verbatim, everything else as JSON. */
export function send(message: unknown): void {
  raw.send(encode(message));
}

export function sendFile(data: Uint8Array): void {
  raw.sendFile(data);
}

/** The client's next message; signals come here too. Calls that wait at once get the same message. */
export const receive: () => Promise<string> = shared(async () => present(await arrival(raw.receive())));

/** The client's next file. Calls that wait at once get the same file. */
export const receiveFile: () => Promise<Uint8Array> = shared(async () =>
  present(await arrival(raw.receiveFile())),
);

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the client is gone: nothing more will be received');
  return value;
}
