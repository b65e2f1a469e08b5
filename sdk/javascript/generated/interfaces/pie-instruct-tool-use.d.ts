/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:instruct/tool-use' {
  /**
   * Tokens that tell the model which tools (JSON schemas) it has.
   */
  export function equip(model: Model, tools: Array<string>): Uint32Array;
  /**
   * Tokens that give a tool's answer back.
   */
  export function answer(model: Model, name: string, value: string): Uint32Array;
  export function createDecoder(model: Model): Decoder;
  /**
   * A grammar of the native call format, where there is one.
   */
  export function format(model: Model, tools: Array<string>): Grammar | undefined;
  export function createMatcher(model: Model, tools: Array<string>): Matcher;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  export type Grammar = import('pie:core/inference').Grammar;
  export type Matcher = import('pie:core/inference').Matcher;
  export type Event = EventStart | EventCall;
  export interface EventStart {
    tag: 'start',
  }
  /**
   * (name, arguments as JSON)
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
