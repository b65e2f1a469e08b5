/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/bidding' {
  /**
   * States that the context will run `steps` more passes with a sampler or probe. `variation` is the squared
   * coefficient of variation of that number: 0 if it is certain, 1 if its deviation is as large as the number. The
   * engine counts the passes down and bids by its default formula. Without `steps`, it expects as many further passes
   * as have run, at least 64. This call ends the effect of `context.bid`.
   */
  export function expect(context: Context, steps: number | undefined, variation: number): void;
  /**
   * Sets the bid of the next pass to `value` credits per page. Later passes are not affected.
   */
  export function once(context: Context, value: number): void;
  /**
   * While `idle` is true, the context bids 0 and is the first to lose its pages. False restores the earlier bid.
   */
  export function idle(context: Context, idle: boolean): void;
  export type Error = import('pie:core/types').Error;
  export type Context = import('pie:core/context').Context;
}
