/** The channel to the client that launched this inferlet. */
import * as raw from 'pie:core/session';
import * as fallible from 'pie:plus/fallible';
import { arrival, shared } from './inbox.ts';
import { encode } from './json.ts';

/** Sends to the client: strings verbatim, everything else as JSON. Throws when the text is too long. */
export function send(message: unknown): void {
  fallible.send(encode(message));
}

/** Sends bytes, which the client receives as a file. Throws when they are too long. */
export function sendFile(data: Uint8Array): void {
  fallible.sendFile(data);
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
