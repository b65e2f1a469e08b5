/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
declare module 'pie:core/scheduling' {
  /**
   * Credits a new page costs.
   */
  export function price(): number;
  /**
   * The clearing price that this context pays.
   */
  export function rent(context: Context): number;
  /**
   * This inferlet's share of the last revenue.
   */
  export function dividend(model: Model): number;
  /**
   * Seconds a tick takes.
   */
  export function latency(context: Context): number;
  /**
   * Credits left.
   */
  export function balance(model: Model): number;
  export type Model = import('pie:core/model').Model;
  export type Context = import('pie:core/context').Context;
}
