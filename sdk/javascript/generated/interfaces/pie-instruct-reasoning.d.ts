/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:instruct/reasoning' {
  export function createDecoder(model: Model): Decoder;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  export type Event = EventStart | EventDelta | EventComplete;
  /**
   * The reasoning has begun.
   */
  export interface EventStart {
    tag: 'start',
  }
  /**
   * New text of the reasoning.
   */
  export interface EventDelta {
    tag: 'delta',
    val: string,
  }
  /**
   * The reasoning has ended. The value is its whole text.
   */
  export interface EventComplete {
    tag: 'complete',
    val: string,
  }
  
  export class Decoder implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    feed(tokens: Uint32Array): Event;
    reset(): void;
    [Symbol.dispose](): void;
  }
}
