/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/steps' {
  /**
   * Executes a pass of `tokens` that continue the context, and samples its last row, as a
   * `forward-pass` of these parts would. An empty mask allows all tokens.
   */
  export function begin(context: Context, tokens: Uint32Array, logitMask: Uint32Array, seed: bigint | undefined, sampler: Sampler): FutureOutput;
  /**
   * Waits for a pass and takes what it gave. An error: why it could not run.
   */
  export function finish(output: FutureOutput): Given;
  export type Error = import('pie:core/types').Error;
  export type Context = import('pie:core/context').Context;
  export type FutureOutput = import('pie:core/inference').FutureOutput;
  export type Output = import('pie:core/inference').Output;
  export type Sampler = import('pie:core/inference').Sampler;
  /**
   * What a pass gave.
   */
  export type Given = GivenToken | GivenOutput;
  /**
   * One slot, a token.
   */
  export interface GivenToken {
    tag: 'token',
    val: number,
  }
  /**
   * Anything else.
   */
  export interface GivenOutput {
    tag: 'output',
    val: Output,
  }
}
