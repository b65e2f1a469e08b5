/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/turns' {
  /**
   * Returns the tokens that the template adds for `turns` after turns of the kinds `before`.
   */
  export function extend(model: Model, before: Array<Kind>, turns: Array<Turn>): Uint32Array;
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  /**
   * # Variants
   * 
   * ## `"system"`
   * 
   * ## `"user"`
   * 
   * ## `"assistant"`
   * 
   * ## `"tools"`
   * 
   * ## `"answer"`
   * 
   * A tool's answer.
   * ## `"cue"`
   * 
   * The beginning of the model's own turn.
   */
  export type Kind = 'system' | 'user' | 'assistant' | 'tools' | 'answer' | 'cue';
  /**
   * One turn. It is a record and not a variant, because some bindings cannot pass lists of variants.
   */
  export interface Turn {
    kind: Kind,
    /**
     * The text of the turn, or the value of a tool's answer.
     */
    text: string,
    /**
     * The name of the tool that answers; empty for other kinds.
     */
    name: string,
    /**
     * In `tools`: the JSON schemas of the tools. In `assistant`: the tool calls of the turn; each is a JSON object with
     * the keys `name`, `arguments` (an object) and `id` (may be missing). In `answer`: the id of the call, if it has
     * one. Empty for other kinds.
     */
    tools: Array<string>,
  }
}
