/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
declare module 'pie:core/scheduling' {
  /**
   * The credits that a new page costs.
   */
  export function price(): number;
  /**
   * The credits that the context pays for each page and tick: the price of the last auction.
   */
  export function rent(context: Context): number;
  /**
   * This inferlet's share of the last tick's revenue.
   */
  export function dividend(model: Model): number;
  /**
   * The duration of the last batch, in seconds.
   */
  export function latency(context: Context): number;
  /**
   * The credits of this inferlet.
   */
  export function balance(model: Model): number;
  export type Model = import('pie:core/model').Model;
  export type Context = import('pie:core/context').Context;
}
