/** The meaning of errors of `wasi:http`, and what to do about them. */
import { httpErrorCode, type ErrorCode } from 'wasi:http/types@0.2.12';
import type { Error as IoError } from 'wasi:io/error@0.2.12';

const TEXTS: Partial<Record<ErrorCode['tag'], string>> = {
  'HTTP-request-denied':
    "the engine's config does not allow this host; add it to [runtime.http] allow",
  'destination-IP-prohibited':
    'the name leads to an address that is not public; add the address to [runtime.http] allow',
  'connection-limit-reached':
    'this inferlet has made too many requests (runtime.http.max_requests, max_in_flight)',
  'HTTP-request-body-size': "the request's body is too long (runtime.http.max_request_mb)",
  'destination-not-found': 'the name has no address',
  'destination-unavailable': 'the host cannot be reached',
  'destination-IP-unroutable': 'the host cannot be reached',
  'connection-refused': 'the server refused the connection',
  'connection-terminated': 'the other side has closed the connection',
  'connection-timeout': 'no connection was made in time',
  'connection-read-timeout': 'the response did not arrive in time (runtime.http.timeout_secs)',
  'TLS-protocol-error': 'TLS failed; the port may speak plain HTTP',
  'TLS-certificate-error':
    "the server's certificate is not valid; the engine trusts the certificates of its system",
  'HTTP-request-method-invalid': 'the engine does not send requests with this method',
  'HTTP-request-URI-invalid':
    'the URL is malformed, or has a user and a password; send these in a header',
  'HTTP-response-timeout': 'no response came in time',
  'HTTP-response-incomplete': 'the response ended before it was complete',
  'HTTP-response-header-section-size': 'the head of the response is too long',
  'HTTP-protocol-error': "the server's answer is not HTTP",
};

/** Why a request failed. */
export function describe(code: ErrorCode): string {
  switch (code.tag) {
    case 'HTTP-response-body-size':
      return `the response is longer than ${code.val} bytes (runtime.http.max_response_mb)`;
    case 'DNS-error':
      return `the name was not found: ${code.val.rcode ?? ''}`;
    case 'TLS-alert-received':
      return `the server refused to speak TLS: ${code.val.alertMessage ?? ''}`;
    case 'internal-error':
      return code.val ?? 'internal error';
    default:
      return TEXTS[code.tag] ?? words(code.tag);
  }
}

/** Why a body ended early. */
export function describeIo(error: IoError): string {
  const code = httpErrorCode(error);
  return code ? describe(code) : error.toDebugString();
}

/** The name of a variant's case as words. */
export function words(tag: string): string {
  return tag.replaceAll('-', ' ').toLowerCase();
}

/** The payload of an error that the engine has thrown; an error of another origin is thrown again. */
export function payloadOf<T>(error: unknown): T {
  const thrown = error as { payload?: T } | undefined;
  if (thrown?.payload === undefined) throw error;
  return thrown.payload;
}
