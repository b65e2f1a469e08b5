/** Methods and headers: between those of the web and those of `wasi:http`. */
import { Fields, type HeaderError, type Method } from 'wasi:http/types@0.2.12';
import { payloadOf, words } from './errors.ts';

const METHODS = ['get', 'head', 'post', 'put', 'delete', 'connect', 'options', 'trace', 'patch'] as const;

export function methodOf(name: string): Method {
  const tag = METHODS.find((known) => known.toUpperCase() === name);
  return tag ? { tag } : { tag: 'other', val: name };
}

export function nameOf(method: Method): string {
  return method.tag === 'other' ? method.val : method.tag.toUpperCase();
}

/** Headers as the engine wants them. The web's headers are texts of bytes. */
export function fieldsOf(headers: Headers): Fields {
  const entries = [...headers].map(([name, value]): [string, Uint8Array] => [
    name,
    Uint8Array.from(value, (character) => character.charCodeAt(0)),
  ]);
  try {
    return Fields.fromList(entries);
  } catch (error) {
    throw new TypeError(`headers: ${words(payloadOf<HeaderError>(error).tag)}`);
  }
}

export function headersOf(message: { headers(): Fields }): Headers {
  const headers = new Headers();
  using fields = message.headers();
  for (const [name, value] of fields.entries()) {
    headers.append(name, String.fromCharCode(...value));
  }
  return headers;
}
