/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/steps' {
  /**
   * Executes a pass that appends `tokens` to the context and samples its last row. It does the same
   * as a `forward-pass` with these parts. An empty mask allows all tokens.
   */
  export function begin(context: Context, tokens: Uint32Array, logitMask: Uint32Array, seed: bigint | undefined, sampler: Sampler): FutureOutput;
  /**
   * Waits for a pass and returns its output, or the reason why it failed.
   */
  export function finish(output: FutureOutput): Given;
  /**
   * Executes a pass that appends `token` to the context and samples it as the last `begin` on this context did. If
   * that `begin` had a seed, the seed grows by 1 with every pass. Waits for the pass and returns its token. The
   * arguments and the result are numbers, because interpreted languages convert other types slowly. Returns
   * 4294967295 if the pass failed: `problem` says why. Fails unless the last `begin` had no mask and a sampler that
   * chooses one token.
   */
  export function repeat(context: Context, token: number): number;
  /**
   * Returns why the last `repeat` on the context failed; none if it did not.
   */
  export function problem(context: Context): Error | undefined;
  export type Error = import('pie:core/types').Error;
  export type Context = import('pie:core/context').Context;
  export type FutureOutput = import('pie:core/inference').FutureOutput;
  export type Output = import('pie:core/inference').Output;
  export type Sampler = import('pie:core/inference').Sampler;
  /**
   * The output of a pass.
   */
  export type Given = GivenToken | GivenOutput;
  /**
   * The pass has one slot, which is a token.
   */
  export interface GivenToken {
    tag: 'token',
    val: number,
  }
  /**
   * Any other output.
   */
  export interface GivenOutput {
    tag: 'output',
    val: Output,
  }
}
