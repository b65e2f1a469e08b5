/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:instruct/chat' {
  export function system(model: Model, message: string): Uint32Array;
  export function user(model: Model, message: string): Uint32Array;
  export function assistant(model: Model, message: string): Uint32Array;
  /**
   * What stands before the model's own turn.
   */
  export function cue(model: Model): Uint32Array;
  /**
   * What closes it.
   */
  export function seal(model: Model): Uint32Array;
  /**
   * Ids that end a turn.
   */
  export function stopTokens(model: Model): Uint32Array;
  export function createDecoder(model: Model): Decoder;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  export type Event = EventDelta | EventInterrupt | EventDone;
  /**
   * Text that became visible; only whole characters, possibly none.
   */
  export interface EventDelta {
    tag: 'delta',
    val: string,
  }
  /**
   * A control token that the text does not show.
   */
  export interface EventInterrupt {
    tag: 'interrupt',
    val: number,
  }
  /**
   * The turn has ended; its whole text.
   */
  export interface EventDone {
    tag: 'done',
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
