/** Anything that gives token ids: the arrays that the SDK returns, plain arrays, sets, generators. */
export type Tokens = Iterable<number>;

export function toU32(values: Tokens): Uint32Array {
  return values instanceof Uint32Array ? values : Uint32Array.from(values);
}

/** `count` successive positions. */
export function positionsFrom(start: number, count: number): Uint32Array {
  const positions = new Uint32Array(count);
  for (let i = 0; i < count; i++) positions[i] = start + i;
  return positions;
}

/** A list that grows. (`push(...tokens)` would overflow the stack on a long prompt.) */
export class TokenList {
  #items: number[] = [];

  get length(): number {
    return this.#items.length;
  }

  push(values: Tokens): void {
    for (const value of values) this.#items.push(value);
  }

  /** Puts `values` in front of what is there. */
  unshift(values: Uint32Array): void {
    const behind = this.#items;
    this.#items = Array.from(values);
    this.push(behind);
  }

  /** Removes the first `count`. */
  drop(count: number): void {
    this.#items.splice(0, count);
  }

  toArray(): Uint32Array {
    return Uint32Array.from(this.#items);
  }

  /** Everything, leaving the list empty. */
  take(): Uint32Array {
    const items = this.toArray();
    this.#items = [];
    return items;
  }
}
