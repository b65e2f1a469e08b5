/**
 * `fetch` over `wasi:http/outgoing-handler`, on the reactor of the SDK.
 *
 * The JavaScript engine's own `fetch` waits in a loop that knows nothing of passes and messages. The
 * classes around it (`Request`, `Response`, `Headers`) are the engine's own. The engine's config names
 * the hosts that can be reached, and checks each request of a redirect.
 */
import { handle } from 'wasi:http/outgoing-handler@0.2.12';
import {
  OutgoingBody,
  OutgoingRequest,
  type ErrorCode,
  type Fields,
  type FutureIncomingResponse,
  type IncomingResponse,
} from 'wasi:http/types@0.2.12';
import { ready } from '../reactor.ts';
import { describe, payloadOf } from './errors.ts';
import { fieldsOf, headersOf, methodOf } from './messages.ts';
import { bodyOf, pipe, write } from './streams.ts';

const MAX_REDIRECTS = 20;
const REDIRECTS = [301, 302, 303, 307, 308];
const WITHOUT_BODY = [101, 103, 204, 205, 304];
/** Headers that a redirect to another origin must not carry along. */
const SECRETS = ['authorization', 'cookie', 'proxy-authorization'];
const OF_THE_BODY = ['content-encoding', 'content-language', 'content-length', 'content-location', 'content-type'];

interface Call {
  method: string;
  url: URL;
  headers: Headers;
  body: Uint8Array | ReadableStream<Uint8Array> | undefined;
  readonly signal: AbortSignal | undefined;
}

async function fetch(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const given = input instanceof Request ? input : undefined;
  const redirect = init.redirect ?? given?.redirect ?? 'follow';
  const call = await callOf(input, init);
  for (let hops = 0; ; hops++) {
    const response = await send(call);
    const location = REDIRECTS.includes(response.status) && response.headers.get('location');
    if (!location || redirect === 'manual') return finished(response, call, hops > 0);
    response.body?.cancel().catch(() => {});
    if (redirect === 'error') throw failed(call.url, 'the response is a redirect, and redirect is "error"');
    if (hops === MAX_REDIRECTS) throw failed(call.url, `there were more than ${MAX_REDIRECTS} redirects`);
    follow(call, response.status, location);
  }
}

async function callOf(input: RequestInfo | URL, init: RequestInit): Promise<Call> {
  const request = new Request(input, init);
  const url = new URL(request.url);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw failed(url, 'a URL begins with http:// or https://');
  }
  const signal = init.signal ?? (input instanceof Request ? input.signal : undefined) ?? undefined;
  signal?.throwIfAborted();
  // A stream is sent as it comes; everything else can be sent again after a redirect.
  const streams = init.body instanceof ReadableStream;
  const body = streams ? request.body : request.body && new Uint8Array(await request.arrayBuffer());
  return { method: request.method, url, headers: request.headers, body: body ?? undefined, signal };
}

/** The URL that a reference means; undefined if it means none. */
function resolve(reference: string, base: string): URL | undefined {
  try {
    return new URL(reference, base);
  } catch {
    return undefined;
  }
}

/** Makes a call what the redirect asks for. */
function follow(call: Call, status: number, location: string): void {
  const next = resolve(location, call.url.href);
  if (!next || (next.protocol !== 'http:' && next.protocol !== 'https:')) {
    throw failed(call.url, `it redirects to ${location}, which is not an HTTP URL`);
  }
  const becomesGet =
    status === 303
      ? call.method !== 'HEAD'
      : (status === 301 || status === 302) && call.method === 'POST';
  const dropped = next.origin === call.url.origin ? [] : SECRETS;
  if (becomesGet) {
    call.method = 'GET';
    call.body = undefined;
  } else if (call.body instanceof ReadableStream) {
    throw failed(call.url, 'it redirects, and a body that is a stream cannot be sent again');
  }
  call.headers = new Headers(
    [...call.headers].filter(([name]) => !dropped.includes(name) && !(becomesGet && OF_THE_BODY.includes(name))),
  );
  call.url = next;
}

async function send(call: Call): Promise<Response> {
  const request = outgoing(call);
  const body = request.body();
  using pending = begin(call.url, request);
  await writeBody(call, body);
  using incoming = await answerOf(call, pending);
  const status = incoming.status();
  const headers = headersOf(incoming);
  const where = `${call.url.href}: `;
  const empty = WITHOUT_BODY.includes(status) || call.method === 'HEAD';
  return new Response(empty ? null : bodyOf(incoming, where, call.signal), { status, headers });
}

function outgoing(call: Call): OutgoingRequest {
  const { url } = call;
  const user = url.username || url.password ? `${url.username}:${url.password}@` : '';
  try {
    const request = new OutgoingRequest(fieldsFor(call));
    request.setMethod(methodOf(call.method));
    request.setScheme({ tag: url.protocol === 'https:' ? 'HTTPS' : 'HTTP' });
    request.setAuthority(user + url.host);
    request.setPathWithQuery(url.pathname + url.search);
    return request;
  } catch (error) {
    throw failed(url, error instanceof TypeError ? error.message : 'the URL or the method is malformed');
  }
}

function fieldsFor(call: Call): Fields {
  const { headers, body } = call;
  if (body instanceof Uint8Array && !headers.has('content-length')) {
    headers.set('content-length', String(body.length));
  }
  return fieldsOf(headers);
}

function begin(url: URL, request: OutgoingRequest): FutureIncomingResponse {
  try {
    return handle(request, undefined);
  } catch (error) {
    throw failed(url, describe(payloadOf<ErrorCode>(error)));
  }
}

async function writeBody(call: Call, outgoingBody: OutgoingBody): Promise<void> {
  const { body, url } = call;
  try {
    using stream = outgoingBody.write();
    if (body instanceof ReadableStream) await pipe(body, stream);
    else if (body) await write(stream, body);
  } catch (error) {
    if (body instanceof ReadableStream) throw error;
    return; // a server may answer before it has read the whole body; the rest is then not needed
  }
  try {
    OutgoingBody.finish(outgoingBody, undefined);
  } catch (error) {
    throw failed(url, describe(payloadOf<ErrorCode>(error)));
  }
}

async function answerOf(call: Call, pending: FutureIncomingResponse): Promise<IncomingResponse> {
  for (;;) {
    const answer = pending.get();
    if (answer === undefined) {
      await ready(pending.subscribe(), call.signal);
    } else if (answer.tag === 'err') {
      throw failed(call.url, 'the response was taken already');
    } else if (answer.val.tag === 'err') {
      throw failed(call.url, describe(answer.val.val));
    } else {
      return answer.val.val;
    }
  }
}

/** A response says where it came from. */
function finished(response: Response, { url }: Call, redirected: boolean): Response {
  Object.defineProperty(response, 'url', { value: url.href.split('#')[0] });
  Object.defineProperty(response, 'redirected', { value: redirected });
  return response;
}

function failed(url: URL, why: string): TypeError {
  return new TypeError(`${url.href}: ${why}`);
}

Object.assign(globalThis, { fetch });
