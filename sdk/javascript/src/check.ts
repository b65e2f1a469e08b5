/**
 * Checks of arguments: a value of a wrong type is a TypeError that names the argument, one outside its range a
 * RangeError. The bindings would convert it in silence.
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
