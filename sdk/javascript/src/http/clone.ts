/**
 * `Response.clone`, which the JavaScript engine does not have.
 *
 * A response cannot be given another body. So the original reads from a response of its own over one half of
 * the stream, and the clone is a response over the other half. What only one of them has read is kept in the
 * inferlet's memory.
 */

const READERS = ['arrayBuffer', 'blob', 'bytes', 'formData', 'json', 'text'] as const;

function clone(this: Response): Response {
  if (this.bodyUsed || this.body?.locked) {
    throw new TypeError('a response whose body was read cannot be cloned: clone it before');
  }
  const { status, statusText, headers } = this;
  const copy = (body: ReadableStream | null): Response =>
    described(new Response(body, { status, statusText, headers: new Headers(headers) }), this);
  if (!this.body) return copy(null);
  const [kept, given] = this.body.tee();
  readFrom(this, copy(kept));
  return copy(given);
}

/** Makes everything that reads the body of `response` read that of `source`. */
function readFrom(response: Response, source: Response): void {
  for (const name of READERS) {
    const read: unknown = source[name];
    if (typeof read !== 'function') continue;
    Object.defineProperty(response, name, { value: read.bind(source), configurable: true });
  }
  Object.defineProperty(response, 'body', { get: () => source.body, configurable: true });
  Object.defineProperty(response, 'bodyUsed', { get: () => source.bodyUsed, configurable: true });
}

/** A clone has the URL of the original response. */
function described(made: Response, { url, redirected }: Response): Response {
  Object.defineProperty(made, 'url', { value: url });
  Object.defineProperty(made, 'redirected', { value: redirected });
  return made;
}

if (!('clone' in Response.prototype)) {
  Object.defineProperty(Response.prototype, 'clone', { value: clone, writable: true, configurable: true });
}
