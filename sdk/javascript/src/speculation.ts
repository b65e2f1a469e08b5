/** Guessing ahead: drafts are checked in one pass with the token that they follow. */

/** A drafter of your own, passed as `speculator`. */
export interface Speculator {
  /** Tokens that may come next, and their positions (they follow one another; may be empty). */
  draft(): [Uint32Array, Uint32Array];
  /** These tokens were accepted, whether or not they had been drafted. */
  accept(tokens: Uint32Array): void;
  /** The last `n` drafted tokens were not accepted. */
  rollback(n: number): void;
  /** Goes back to the initial state. */
  reset(): void;
}

/**
 * The tokens that a verified draft gives: the drafts that the model agrees with, then its own choice.
 * `sampled` has one token more than `drafts`.
 */
export function agreed(drafts: Uint32Array, sampled: Uint32Array): Uint32Array {
  let right = 0;
  while (right < drafts.length && drafts[right] === sampled[right]) right++;
  return sampled.subarray(0, right + 1);
}

/**
 * How many of the drafts stay in the cache once `accepted` of the `verified` tokens were. The last
 * accepted token waits in the buffer, as it does without drafts, unless a stop token follows it.
 */
export function draftsKept(verified: number, accepted: number, stopped: boolean): number {
  const inCache = verified - 1;
  return Math.min(inCache, stopped ? accepted : Math.max(0, accepted - 1));
}
