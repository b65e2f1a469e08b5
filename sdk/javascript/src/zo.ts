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
export function initialize(adapter: Adapter, settings: ZoSettings): void {
  checkAdapter(adapter);
  const { rank, alpha, populationSize, muFraction, initialSigma } = settings;
  raw.initialize(
    adapter.raw,
    whole('rank', rank),
    number('alpha', alpha),
    whole('populationSize', populationSize),
    number('muFraction', muFraction),
    number('initialSigma', initialSigma),
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
