/** Values that leave the inferlet: strings verbatim, everything else as JSON. */
import { kind, text } from './check.ts';
import type { Call } from './tools.ts';

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
  return Array.from(schemas, (schema) => {
    if (typeof schema === 'string' || (typeof schema === 'object' && schema !== null)) return encode(schema);
    throw new TypeError(`each of schemas must be a JSON schema (its text, or the object), not ${kind(schema)}`);
  });
}

/** The JSON texts of calls. A single call is not a list of them. */
export function encodeCalls(calls: Iterable<Call>): string[] {
  if (typeof calls === 'string' || typeof calls?.[Symbol.iterator] !== 'function') {
    throw new TypeError(`calls must be a list of calls, not ${kind(calls)}`);
  }
  return Array.from(calls, (call) => encodeCall(checkCall('each of calls', call)));
}

/** A call of a tool whose parts have the right types. */
export function checkCall(name: string, call: Call): Call {
  if (typeof call !== 'object' || call === null) {
    throw new TypeError(`${name} must be an object with a name, not ${kind(call)}`);
  }
  text('name', call.name);
  if (call.id !== undefined) text('id', call.id);
  if (call.arguments === null || !['string', 'object', 'undefined'].includes(typeof call.arguments)) {
    throw new TypeError(`arguments must be an object or its JSON text, not ${kind(call.arguments)}`);
  }
  return call;
}

/** The call as the engine's contract has it. */
function encodeCall(call: Call): string {
  // The text of the arguments goes in as it is: parsing could change its numbers. The name comes last, so that no
  // argument replaces it.
  const given = encode(call.arguments ?? '').trim() || '{}';
  return `{"arguments": ${given}, "id": ${JSON.stringify(call.id ?? '')}, "name": ${JSON.stringify(call.name)}}`;
}

/** Only a number with such an exponent, or with this many digits, can be infinite. */
const MAY_BE_INFINITE = /[eE]\+?\d{3}|\d{300}/;

/** The value of a JSON text. A number that JavaScript cannot hold is an error, not infinity. */
export function parseJson(text: string): unknown {
  if (!MAY_BE_INFINITE.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value: unknown) => {
    if (value === Infinity || value === -Infinity) {
      throw new RangeError('it has a number that is greater than JavaScript can hold');
    }
    return value;
  });
}

/**
 * Writes the return value of `main`. No value becomes the empty text, as in every language; `null` is JSON.
 */
export function encodeReturn(value: unknown): string {
  return value === undefined ? '' : encode(value);
}

export function encode(value: unknown): string {
  if (typeof value === 'string') return value;
  const expected = 'the value must be a string or have a JSON form';
  let made: string | undefined;
  try {
    made = JSON.stringify(value, plain);
  } catch (error) {
    throw new TypeError(`${expected}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
  if (made === undefined && value !== undefined) throw new TypeError(`${expected}, not ${kind(value)}`);
  return made ?? 'null';
}
