/** Guessing ahead: the engine verifies drafts in one pass with the tokens that they follow. */
import { kind } from './check.ts';
import { positionsFrom, toU32 } from './tokens.ts';

/** A drafter of your own, passed as `speculator`. */
export interface Speculator {
  /** Tokens that may come next, and their positions (none: they follow the sequence). */
  draft(): [Uint32Array, Uint32Array];
  /** Takes the accepted tokens: the drafts that the model chose too, then one token of its own. */
  accept(tokens: Uint32Array): void;
  /**
   * The last `n` drafted tokens were not accepted: the model chose another token, a constraint refuses
   * them, or the generation has ended before them.
   */
  rollback(n: number): void;
  /** Goes back to the initial state. It is called when the generation has ended. */
  reset(): void;
}

/** Throws where a method is missing. */
export function checkSpeculator(value: Speculator): Speculator {
  for (const method of ['draft', 'accept', 'rollback', 'reset'] as const) {
    if (typeof value[method] !== 'function') {
      throw new TypeError(`speculator must be a Speculator, which has ${method}(), not ${kind(value)}`);
    }
  }
  return value;
}

/** Tokens to verify, and their positions. */
export interface Drafts {
  readonly tokens: Uint32Array;
  readonly positions: Uint32Array;
  /** How many tokens were drafted. Those that cannot be accepted any more are not verified. */
  readonly drafted: number;
}

export const NO_DRAFTS: Drafts = {
  tokens: new Uint32Array(),
  positions: new Uint32Array(),
  drafted: 0,
};

/** The drafts that can be accepted. Without positions of their own, they go on from `position`. */
export function draftsFrom(
  given: readonly [Iterable<number>, Iterable<number>],
  position: number,
  room: number,
): Drafts {
  const tokens = toU32(given[0], 'the tokens of draft()');
  let positions = toU32(given[1], 'the positions of draft()');
  if (positions.length === 0) positions = positionsFrom(position, tokens.length);
  if (positions.length !== tokens.length) {
    throw new Error(
      `draft() returned ${tokens.length} tokens but ${positions.length} positions`,
    );
  }
  const drafted = tokens.length;
  return { tokens: tokens.subarray(0, room), positions: positions.subarray(0, room), drafted };
}

/**
 * How many of the drafts in the cache stay there, once `accepted` tokens were. The last accepted token
 * waits in the buffer, as it does without drafts, unless a stop token follows it.
 */
export function draftsKept(inCache: number, accepted: number, stopped: boolean): number {
  return Math.min(inCache, stopped ? accepted : Math.max(0, accepted - 1));
}
