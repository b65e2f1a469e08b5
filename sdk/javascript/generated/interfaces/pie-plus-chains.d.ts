/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:plus/chains' {
  /**
   * Executes the pass, and after it as many as it takes to choose `max-tokens` tokens or one of
   * `stops`. The pass has one sampler, on its last row, and no attention mask; its logit mask holds
   * for all. With `sampling.seed`, token i is drawn from seed + i.
   */
  export function run(pass: ForwardPass, maxTokens: number, stops: Uint32Array): Chain;
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  export type Error = import('pie:core/types').Error;
  export type ForwardPass = import('pie:core/inference').ForwardPass;
  /**
   * Why a chain has ended.
   * # Variants
   * 
   * ## `"stop"`
   * 
   * By a stop token, which is the last one that it gave.
   * ## `"limit"`
   * 
   * It gave as many tokens as it was asked for.
   * ## `"cancelled"`
   * 
   * Its context was used for something else, or is gone.
   */
  export type Ending = 'stop' | 'limit' | 'cancelled';
  export interface Progress {
    /**
     * What was chosen since the last call, oldest first.
     */
    tokens: Uint32Array,
    ended?: Ending,
  }
  
  export class Chain implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Ready when there is something to take: the first token, then several at once, then the end.
    */
    pollable(): Pollable;
    /**
    * Empty while nothing is there. An error: why no further pass could run, once all tokens before
    * it were taken.
    */
    take(): Progress;
    [Symbol.dispose](): void;
  }
}
