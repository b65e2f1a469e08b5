/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:instruct/chat' {
  /**
   * The tokens of a system turn at the beginning of a conversation.
   */
  export function system(model: Model, message: string): Uint32Array;
  /**
   * The tokens of a user turn in the middle of a conversation.
   */
  export function user(model: Model, message: string): Uint32Array;
  /**
   * The tokens of an assistant turn in the middle of a conversation.
   */
  export function assistant(model: Model, message: string): Uint32Array;
  /**
   * The tokens that open the model's own turn.
   */
  export function cue(model: Model): Uint32Array;
  /**
   * The tokens that close the model's own turn.
   */
  export function seal(model: Model): Uint32Array;
  /**
   * The tokens that end the model's turn.
   */
  export function stopTokens(model: Model): Uint32Array;
  /**
   * Creates a decoder for one turn of the model.
   */
  export function createDecoder(model: Model): Decoder;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  export type Event = EventDelta | EventInterrupt | EventDone;
  /**
   * New text of the turn. It holds whole characters only and may be empty.
   */
  export interface EventDelta {
    tag: 'delta',
    val: string,
  }
  /**
   * A control token, which is not part of the text.
   */
  export interface EventInterrupt {
    tag: 'interrupt',
    val: number,
  }
  /**
   * The turn has ended. The value is its whole text.
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
