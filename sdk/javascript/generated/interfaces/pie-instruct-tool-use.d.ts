/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:instruct/tool-use' {
  /**
   * The tokens that describe the available tools, given as JSON schemas, to the model.
   */
  export function equip(model: Model, tools: Array<string>): Uint32Array;
  /**
   * The tokens that give the result of the tool `name` back to the model.
   */
  export function answer(model: Model, name: string, value: string): Uint32Array;
  export function createDecoder(model: Model): Decoder;
  /**
   * The grammar of the model's call format, or none if it has no grammar.
   */
  export function format(model: Model, tools: Array<string>): Grammar | undefined;
  /**
   * Creates a matcher of that grammar. Traps if there is none.
   */
  export function createMatcher(model: Model, tools: Array<string>): Matcher;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  export type Grammar = import('pie:core/inference').Grammar;
  export type Matcher = import('pie:core/inference').Matcher;
  export type Event = EventStart | EventCall;
  /**
   * A call has begun, or no call has begun yet: see `pie:plus/calls`.
   */
  export interface EventStart {
    tag: 'start',
  }
  /**
   * A call is complete: (name, arguments as JSON).
   */
  export interface EventCall {
    tag: 'call',
    val: [string, string],
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
