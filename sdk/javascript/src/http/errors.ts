/** What errors of `wasi:http` mean, and what to do about them. */
import type { ErrorCode } from 'wasi:http/types@0.2.12';

export function describe(code: ErrorCode): string {
  switch (code.tag) {
    case 'HTTP-request-denied':
      return "the engine's config does not allow this host; add it to [runtime.http] allow";
    case 'destination-IP-prohibited':
      return 'the name leads to an address that is not public; add the address to [runtime.http] allow';
    case 'connection-limit-reached':
      return 'this inferlet has made too many requests (runtime.http.max_requests, max_in_flight)';
    case 'HTTP-response-body-size':
      return `the response is longer than ${code.val} bytes (runtime.http.max_response_mb)`;
    case 'HTTP-request-body-size':
      return "the request's body is too long (runtime.http.max_request_mb)";
    case 'DNS-error':
      return `the name was not found: ${code.val.rcode ?? ''}`;
    case 'connection-refused':
      return 'the server refused the connection';
    case 'connection-timeout':
      return 'no connection was made in time';
    case 'HTTP-response-timeout':
      return 'no response came in time';
    case 'connection-read-timeout':
      return 'the response stopped arriving';
    case 'internal-error':
      return code.val ?? 'internal error';
    default:
      return words(code.tag);
  }
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
