/// <reference path="./pie-core-context.d.ts" />
declare module 'pie:plus/caching' {
  /**
   * Returns how many tokens of the passes on this context were found in the prefix cache, instead of being computed.
   * Tokens that a chain chose do not count. The number includes every pass whose output has arrived. A fork, and a
   * context that was opened, begin with 0.
   */
  export function cachedTokens(context: Context): bigint;
  export type Context = import('pie:core/context').Context;
}
