/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/turns' {
  /**
   * What the template adds for `turns` behind turns of the kinds `before`.
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
   * Of a tool.
   * ## `"cue"`
   * 
   * Where the model's own turn begins.
   */
  export type Kind = 'system' | 'user' | 'assistant' | 'tools' | 'answer' | 'cue';
  /**
   * A record, not a variant: some bindings cannot pass lists of variants.
   */
  export interface Turn {
    kind: Kind,
    /**
     * What is said; an answer's value.
     */
    text: string,
    /**
     * The tool that answers.
     */
    name: string,
    /**
     * JSON schemas.
     */
    tools: Array<string>,
  }
}
