/** Values that leave the inferlet: strings verbatim, everything else as JSON. */
import { kind } from './check.ts';

/** Typed arrays (token ids, say) become JSON arrays instead of objects with numbered keys. */
function plain(_key: string, value: unknown): unknown {
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    return Array.from(value as unknown as ArrayLike<number>);
  }
  return value;
}

/** The JSON texts of tools' schemas. A single schema is not a list of them. */
export function encodeSchemas(schemas: Iterable<string | object>): string[] {
  if (typeof schemas === 'string' || typeof schemas?.[Symbol.iterator] !== 'function') {
    throw new TypeError(`schemas must be a list of JSON schemas, not ${kind(schemas)}`);
  }
  return Array.from(schemas, encode);
}

/** What `main` returns. Nothing is the empty text, as it is in every language; `null` is JSON. */
export function encodeReturn(value: unknown): string {
  return value === undefined ? '' : encode(value);
}

export function encode(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(value, plain) ?? 'null';
}
