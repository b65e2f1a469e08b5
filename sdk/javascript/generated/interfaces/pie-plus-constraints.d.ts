/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/constraints' {
  /**
   * Makes the samplers of the pass choose only tokens that the matcher, in its present state, allows. A pass may have
   * several matchers: a token must be allowed by all of them and by the pass's logit mask. In a chain the engine
   * advances its own copy of the matcher with every token, and appends tokens that the grammar forces without sampling
   * them. The guest's matcher advances with the tokens that the guest takes from the chain.
   */
  export function constrain(pass: ForwardPass, matcher: Matcher): void;
  /**
   * Returns another matcher at the same place of the text.
   */
  export function fork(matcher: Matcher): Matcher;
  /**
   * Takes back the last `tokens` tokens. Fails when the matcher has accepted fewer.
   */
  export function rollback(matcher: Matcher, tokens: number): void;
  /**
   * Returns the tokens that must come next; the list is empty where there is a choice.
   */
  export function forcedTokens(matcher: Matcher): Uint32Array;
  export type Error = import('pie:core/types').Error;
  export type ForwardPass = import('pie:core/inference').ForwardPass;
  export type Matcher = import('pie:core/inference').Matcher;
}
