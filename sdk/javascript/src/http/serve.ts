/**
 * The function that bakery exports as the handler of HTTP requests: a web `Request` in, a web `Response` out.
 */
import {
  Fields,
  OutgoingBody,
  OutgoingResponse,
  ResponseOutparam,
  type IncomingRequest,
} from 'wasi:http/types@0.2.12';
import { startConsole } from '../console.ts';
import { describe } from '../failure.ts';
import { drive } from '../reactor.ts';
import { startTimers } from '../timers.ts';
import { fieldsOf, headersOf, nameOf } from './messages.ts';
import { bodyOf, pipe } from './streams.ts';

/** The default export of a program that answers HTTP requests. */
export interface HttpHandler {
  /** Answers one request. Each request has an instance of its own. */
  fetch(request: Request): Response | Promise<Response>;
}

/** A failure before the response begins becomes status 500; a later one cuts the response off. */
export async function answer(
  program: HttpHandler,
  raw: IncomingRequest,
  out: ResponseOutparam,
): Promise<void> {
  startTimers();
  startConsole();
  let begun = false;
  try {
    await drive(
      (async () => {
        const response = await program.fetch(requestOf(raw));
        if (!(response instanceof Response)) throw new TypeError('the inferlet sent no response');
        const body = head(response, out);
        begun = true;
        await writeBody(response, body);
      })(),
    );
  } catch (error) {
    console.error(describe(error).text); // the client is not told
    const val = 'the inferlet sent no response';
    if (!begun) ResponseOutparam.set(out, { tag: 'err', val: { tag: 'internal-error', val } });
  }
}

function requestOf(raw: IncomingRequest): Request {
  const method = nameOf(raw.method());
  const headers = headersOf(raw);
  const url = `http://${raw.authority() ?? headers.get('host') ?? 'localhost'}${raw.pathWithQuery() ?? '/'}`;
  const body = method === 'GET' || method === 'HEAD' ? null : bodyOf(raw, '');
  const init: RequestInit & { duplex: 'half' } = { method, headers, body, duplex: 'half' };
  return new Request(url, init);
}

/** Sends the head of the response. */
function head(response: Response, out: ResponseOutparam): OutgoingBody {
  const outgoing = new OutgoingResponse(headFields(response));
  outgoing.setStatusCode(response.status);
  const body = outgoing.body();
  ResponseOutparam.set(out, { tag: 'ok', val: outgoing });
  return body;
}

function headFields(response: Response): Fields {
  const headers = new Headers(response.headers);
  // The client learns from the connection how long a body is that comes piece by piece.
  headers.delete('transfer-encoding');
  return fieldsOf(headers);
}

/** A body that is dropped before it is finished is cut off, so that the client notices. */
async function writeBody(response: Response, body: OutgoingBody): Promise<void> {
  try {
    if (response.body) {
      using stream = body.write();
      await pipe(response.body, stream);
    }
  } catch (error) {
    body[Symbol.dispose]();
    throw error;
  }
  OutgoingBody.finish(body, undefined);
}
