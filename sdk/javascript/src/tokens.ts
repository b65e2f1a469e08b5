/**
 * Lists of token ids.
 *
 * These run in every step, on an interpreter: plain loops and `new Uint32Array(array)` are ten times as
 * fast there as iterators and `Uint32Array.from`.
 */
import { kind, whole } from './check.ts';

/** Anything that gives token ids: the arrays that the SDK returns, plain arrays, sets, generators. */
export type Tokens = Iterable<number>;

/** Throws if a value is not a whole number of 32 bits. A Uint32Array would convert it without an error. */
export function toU32(values: Tokens, name = 'tokens'): Uint32Array {
  if (values instanceof Uint32Array) return values;
  if (typeof values === 'string' || typeof values?.[Symbol.iterator] !== 'function') {
    throw new TypeError(`${name} must be a list of whole numbers, not ${kind(values)}`);
  }
  const list = Array.isArray(values) ? values : Array.from(values);
  for (let i = 0; i < list.length; i++) {
    if (list[i] >>> 0 !== list[i]) whole(`each of ${name}`, list[i]);
  }
  return new Uint32Array(list);
}

/** `count` successive positions. */
export function positionsFrom(start: number, count: number): Uint32Array {
  const positions = new Uint32Array(count);
  for (let i = 0; i < count; i++) positions[i] = start + i;
  return positions;
}

/** A list that grows. (`push(...tokens)` would overflow the stack on a long prompt.) */
export class TokenList {
  private items: number[] = [];

  get length(): number {
    return this.items.length;
  }

  push(values: Uint32Array): void {
    for (let i = 0; i < values.length; i++) this.items.push(values[i]!);
  }

  /** Puts `values` in front of what is there. */
  unshift(values: Uint32Array): void {
    const behind = this.items;
    this.items = [];
    this.push(values);
    if (behind.length > 0) this.items = this.items.concat(behind);
  }

  /** The only item; undefined if there are more, or none. */
  get only(): number | undefined {
    return this.items.length === 1 ? this.items[0] : undefined;
  }

  /** Puts `value` in the place of all items; undefined: nothing. */
  become(value: number | undefined): void {
    if (value === undefined) this.items.length = 0;
    else if (this.items.length === 1) this.items[0] = value;
    else this.items = [value];
  }

  /** Removes the first `count`. */
  drop(count: number): void {
    if (count === this.items.length) this.items = [];
    else this.items.splice(0, count);
  }

  /** Removes the last `count`. */
  shorten(count: number): void {
    this.items.length = Math.max(0, this.items.length - count);
  }

  toArray(): Uint32Array {
    return new Uint32Array(this.items);
  }

  /** Everything, leaving the list empty. */
  take(): Uint32Array {
    const items = this.toArray();
    this.items = [];
    return items;
  }
}
