/** Masks as run lengths, and what is computed with them. */
import { toU32 } from './tokens.ts';

/**
 * BRLE masks: run lengths that alternate false, true, false, …, beginning with false (maybe 0).
 *
 * In a logit mask true means allowed; an *empty* mask restricts nothing. Places after a mask's end
 * count as false.
 */
export type Brle = Uint32Array;

/** Where both masks are true. Either may be empty ("no restriction"). */
export function intersect(a: Brle, b: Brle): Brle {
  if (a.length === 0) return b;
  if (b.length === 0) return a;
  const runs = new RunWriter();
  let ia = 0;
  let ib = 0;
  let leftA = a[0]!;
  let leftB = b[0]!;
  for (;;) {
    const length = Math.min(leftA, leftB);
    runs.add((ia & ib & 1) === 1, length); // odd runs are the true ones
    if ((leftA -= length) === 0) {
      if (++ia === a.length) break;
      leftA = a[ia]!;
    }
    if ((leftB -= length) === 0) {
      if (++ib === b.length) break;
      leftB = b[ib]!;
    }
  }
  return runs.finish();
}

/** Whether a logit mask allows no token. An empty one allows all. */
export function allowsNone(mask: Brle): boolean {
  for (let i = 1; i < mask.length; i += 2) if (mask[i]! > 0) return false;
  return mask.length > 0;
}

/** The mask that is true at `ids` alone. */
export function allowOnly(ids: Iterable<number>): Brle {
  const runs = new RunWriter();
  let end = 0;
  for (const id of [...new Set(toU32(ids, 'ids'))].sort((x, y) => x - y)) {
    runs.add(false, id - end);
    runs.add(true, 1);
    end = id + 1;
  }
  return runs.finish();
}

/** Joins neighbouring runs of the same value. */
class RunWriter {
  readonly #runs: number[] = [0];

  add(value: boolean, length: number): void {
    if (length === 0) return;
    const lastIsTrue = this.#runs.length % 2 === 0;
    if (value === lastIsTrue) this.#runs[this.#runs.length - 1]! += length;
    else this.#runs.push(length);
  }

  /** A mask that is false everywhere is `[n]`: never empty, which would mean the opposite. */
  finish(): Brle {
    return Uint32Array.from(this.#runs);
  }
}
