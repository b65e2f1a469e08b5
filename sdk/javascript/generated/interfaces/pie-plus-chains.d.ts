/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:plus/chains' {
  /**
   * Executes the pass, and further passes until `max-tokens` tokens or one of `stops` were chosen.
   * The pass must have one sampler, on its last row, and no attention mask. Its logit mask applies to
   * all passes. With `sampling.seed`, token i is drawn from seed + i. With
   * `forward-pass.output-speculative-tokens`, the engine guesses tokens ahead and verifies several of them in one
   * pass; the tokens are the same as without it.
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
   * The chain chose a stop token, which is its last token.
   * ## `"limit"`
   * 
   * The chain chose `max-tokens` tokens.
   * ## `"cancelled"`
   * 
   * The context was used for something else, or was dropped.
   * ## `"complete"`
   * 
   * A matcher of the pass allows no further token: the text is complete.
   */
  export type Ending = 'stop' | 'limit' | 'cancelled' | 'complete';
  export interface Progress {
    /**
     * The tokens chosen since the last call, oldest first.
     */
    tokens: Uint32Array,
    /**
     * None while the chain runs.
     */
    ended?: Ending,
  }
  
  export class Chain implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Ready when `take` has something to return: the first token, then several at once, then the end.
    */
    pollable(): Pollable;
    /**
    * Returns the tokens chosen since the last call; the list is empty if there are none. After all
    * tokens of a failed chain were taken, returns the reason of the failure as an error.
    */
    take(): Progress;
    [Symbol.dispose](): void;
  }
}
