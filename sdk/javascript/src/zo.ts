/** Zeroth-order optimisation: adapters moved by seeds and scores. */
import * as raw from 'pie:zo/zo';
import type { Adapter } from './adapter.ts';
import { checkAdapter } from './adapter_check.ts';
import { list, number, whole } from './check.ts';
import { toZoSeed, type Seed } from './pass.ts';

/** How an adapter is trained by evolution strategies. */
export interface ZoSettings {
  /** The rank of the adapter's matrices. */
  rank: number;
  /** The adapter's scale: its change is multiplied by alpha / rank. */
  alpha: number;
  /** How many seeds are tried in a round. */
  populationSize: number;
  /** The share of the population that counts as its best. */
  muFraction: number;
  /** The size of the first perturbations. */
  initialSigma: number;
}

/** Prepares an adapter for training. Throws where a setting is out of range. */
export function initialize(adapter: Adapter, settings: ZoSettings): void;
/** Does the same with the settings as numbers, in the order of `ZoSettings`. */
export function initialize(
  adapter: Adapter,
  rank: number,
  alpha: number,
  populationSize: number,
  muFraction: number,
  initialSigma: number,
): void;
export function initialize(adapter: Adapter, first: ZoSettings | number, ...others: number[]): void {
  checkAdapter(adapter);
  const [alpha, populationSize, muFraction, initialSigma] = others;
  const settings =
    typeof first === 'object' && first !== null
      ? first
      : { rank: first, alpha, populationSize, muFraction, initialSigma };
  raw.initialize(
    adapter.raw,
    whole('rank', settings.rank),
    number('alpha', settings.alpha),
    whole('populationSize', settings.populationSize),
    number('muFraction', settings.muFraction),
    number('initialSigma', settings.initialSigma),
  );
}

/** One step: the score that each seed's perturbation reached. */
export function update(
  adapter: Adapter,
  scores: Iterable<number>,
  seeds: Iterable<Seed>,
  maxSigma: number,
): void {
  checkAdapter(adapter);
  const reached = list('scores', scores, 'numbers').map((score) => number('each of scores', score));
  const tried = list('seeds', seeds, 'whole numbers').map((seed) => toZoSeed(seed, 'each of seeds'));
  const sigma = number('maxSigma', maxSigma);
  raw.update(adapter.raw, Float32Array.from(reached), BigInt64Array.from(tried), sigma);
}
