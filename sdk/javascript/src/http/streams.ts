/** Bodies: between the streams of `wasi:io` and those of the web. */
import type { IncomingBody } from 'wasi:http/types@0.2.12';
import type { InputStream, OutputStream, StreamError } from 'wasi:io/streams@0.2.12';
import { ready } from '../reactor.ts';
import { describeIo, payloadOf } from './errors.ts';

const PIECE_BYTES = 64 * 1024;

/** The body of a request or a response. What goes wrong with it is an error with `where` before it. */
export function bodyOf(
  message: { consume(): IncomingBody },
  where: string,
  signal?: AbortSignal,
): ReadableStream<Uint8Array> {
  const body = message.consume();
  const stream = body.stream();
  let open = true;
  const close = (): void => {
    if (!open) return;
    open = false;
    stream[Symbol.dispose](); // set before the body to which it belongs
    body[Symbol.dispose]();
  };
  const source: UnderlyingDefaultSource<Uint8Array> = {
    async pull(controller) {
      try {
        const piece = await read(stream, signal);
        if (piece) return controller.enqueue(piece);
        close();
        controller.close();
      } catch (error) {
        close();
        throw error instanceof Error ? new TypeError(`${where}${error.message}`) : error;
      }
    },
    cancel: close,
  };
  return new ReadableStream(source, { highWaterMark: 0 });
}

/** The next bytes of a body; undefined at its end. */
async function read(stream: InputStream, signal?: AbortSignal): Promise<Uint8Array | undefined> {
  for (;;) {
    try {
      const piece = stream.read(BigInt(PIECE_BYTES));
      if (piece.length > 0) return piece;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === undefined) return undefined;
      throw new Error(failure);
    }
    await ready(stream.subscribe(), signal);
  }
}

/** Writes all bytes, and waits while the other side reads slowly. */
export async function write(stream: OutputStream, bytes: Uint8Array): Promise<void> {
  try {
    for (let at = 0; at < bytes.length; ) {
      const room = Number(stream.checkWrite());
      if (room === 0) {
        await ready(stream.subscribe());
        continue;
      }
      const piece = bytes.subarray(at, at + room);
      stream.write(piece);
      at += piece.length;
    }
  } catch (error) {
    throw new Error(failureOf(error) ?? 'the other side has closed the connection');
  }
}

/** Writes a stream of the web to its end. */
export async function pipe(from: ReadableStream<Uint8Array>, to: OutputStream): Promise<void> {
  const reader = from.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (!(value instanceof Uint8Array)) throw new TypeError('a body consists of Uint8Arrays');
      await write(to, value);
    }
  } catch (error) {
    reader.cancel(error).catch(() => {});
    throw error;
  }
}

/** The failure of a stream; undefined if it has ended. */
function failureOf(error: unknown): string | undefined {
  const failure = payloadOf<StreamError>(error);
  if (failure.tag === 'closed') return undefined;
  using cause = failure.val;
  return describeIo(cause);
}

/** `response.bytes()`, which the JavaScript engine lacks. */
async function bytes(this: Body): Promise<Uint8Array> {
  return new Uint8Array(await this.arrayBuffer());
}
for (const { prototype } of [Request, Response]) {
  if (!('bytes' in prototype)) Object.defineProperty(prototype, 'bytes', { value: bytes });
}

/** Gives streams the iteration that the JavaScript engine's lack: `for await (const piece of response.body)`. */
async function* iterate<T>(this: ReadableStream<T>): AsyncGenerator<T, void, undefined> {
  const reader = this.getReader();
  let ended = false;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      ended = done;
      if (done) return;
      yield value;
    }
  } finally {
    if (!ended) await reader.cancel();
    reader.releaseLock();
  }
}
if (!(Symbol.asyncIterator in ReadableStream.prototype)) {
  Object.defineProperty(ReadableStream.prototype, Symbol.asyncIterator, { value: iterate });
}
