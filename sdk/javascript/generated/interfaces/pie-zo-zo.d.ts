/// <reference path="./pie-core-adapter.d.ts" />
/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:zo/zo' {
  /**
   * Perturbs the pass's adapter with the noise of this seed.
   */
  export function adapterSeed(pass: ForwardPass, seed: bigint): void;
  /**
   * Prepares an adapter for training.
   */
  export function initialize(adapter: Adapter, rank: number, alpha: number, populationSize: number, muFraction: number, initialSigma: number): void;
  /**
   * Moves the adapter towards the seeds with the higher scores. `scores` and `seeds` have the same length.
   */
  export function update(adapter: Adapter, scores: Float32Array, seeds: BigInt64Array, maxSigma: number): void;
  export type Error = import('pie:core/types').Error;
  export type ForwardPass = import('pie:core/inference').ForwardPass;
  export type Adapter = import('pie:core/adapter').Adapter;
}
