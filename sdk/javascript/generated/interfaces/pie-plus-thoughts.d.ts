/// <reference path="./pie-core-model.d.ts" />
declare module 'pie:plus/thoughts' {
  /**
   * Returns the marks that the model's template gives its thoughts; none if it has no marks.
   */
  export function marks(model: Model): Format | undefined;
  export type Model = import('pie:core/model').Model;
  /**
   * The thoughts stand between two marks, at the beginning of the model's turn.
   */
  export interface Format {
    /**
     * The text that opens the thoughts.
     */
    open: string,
    /**
     * The text that closes them.
     */
    close: string,
    /**
     * The token behind which the answer begins, if a special token closes the thoughts or begins the answer.
     */
    closeToken?: number,
    /**
     * Whether `chat.cue` has already written `open`.
     */
    beginsInside: boolean,
    /**
     * Rules of a Lark grammar, in lines of their own. Their rule `thoughts` is what the model writes before its
     * answer: the thoughts, their marks (without `open` if the cue has written it), and the blanks behind them.
     */
    rules: string,
  }
}
