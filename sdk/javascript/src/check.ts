/**
 * Checks of arguments: a value of a wrong type is a TypeError that names the argument, one outside its range a
 * RangeError. The bindings would convert it without an error.
 */

/** A text. */
export function text(name: string, value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`${name} must be a string, not ${kind(value)}`);
  return value;
}

/** A whole number of 32 bits. */
export function whole(name: string, value: unknown): number {
  const number_ = number(name, value);
  if (!Number.isInteger(number_) || number_ < 0 || number_ > 0xffff_ffff) {
    throw new RangeError(`${name} must be a whole number between 0 and 4294967295, not ${number_}`);
  }
  return number_;
}

/** A number. */
export function number(name: string, value: unknown): number {
  if (typeof value !== 'number') throw new TypeError(`${name} must be a number, not ${kind(value)}`);
  return value;
}

/** The temperature of a sampler or probe. */
export function temperature(value: unknown): number {
  const given = number('temperature', value);
  if (!(given >= 0 && given < Infinity)) {
    throw new RangeError(`temperature must be 0 or more, not ${given}`);
  }
  return given;
}

/** A number between 0 and 1. */
export function share(name: string, value: unknown): number {
  const given = number(name, value);
  if (!(given >= 0 && given <= 1)) throw new RangeError(`${name} must be between 0 and 1, not ${given}`);
  return given;
}

/** A seed: a whole number, as a number or a bigint. */
export function seed<T extends number | bigint>(name: string, value: T): T {
  if (typeof value === 'bigint') return value;
  if (typeof value !== 'number') {
    throw new TypeError(`${name} must be a whole number or a bigint, not ${kind(value)}`);
  }
  if (!Number.isInteger(value)) throw new RangeError(`${name} must be a whole number, not ${value}`);
  return value;
}

/** An object of the SDK. `madeBy` says where programs get one. */
export function instance<T>(
  name: string,
  value: unknown,
  type: Function & { readonly prototype: T },
  madeBy: string,
): T {
  if (value instanceof type) return value as T;
  const called = type.name.replace(/^_/, ''); // the bundler renames classes that refer to themselves
  const article = /^[AEIOU]/.test(called) ? 'an' : 'a';
  throw new TypeError(`${name} must be ${article} ${called} (${madeBy}), not ${kind(value)}`);
}

/** A list or another iterable; `of` says of what. A string is none. */
export function list<T>(name: string, values: Iterable<T>, of: string): T[] {
  if (typeof values !== 'string' && typeof values?.[Symbol.iterator] === 'function') {
    return Array.from(values);
  }
  throw new TypeError(`${name} must be a list of ${of}, not ${kind(values)}`);
}

/** Bytes. */
export function bytes(name: string, value: unknown): Uint8Array {
  if (!(value instanceof Uint8Array)) {
    throw new TypeError(`${name} must be a Uint8Array, not ${kind(value)}`);
  }
  return value;
}

/** Describes a value, for an error. */
export function kind(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return typeof value === 'object' ? `an object (${value.constructor?.name ?? 'Object'})` : `a ${typeof value}`;
}
