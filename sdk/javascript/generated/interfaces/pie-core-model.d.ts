/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:core/model' {
  export type Error = import('pie:core/types').Error;
  
  export class Model implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Bind to a model that the engine has loaded.
    */
    static load(name: string): Model;
    tokenizer(): Tokenizer;
    [Symbol.dispose](): void;
  }
  
  export class Tokenizer implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    encode(text: string): Uint32Array;
    decode(tokens: Uint32Array): string;
    /**
    * Every token id with its bytes.
    */
    vocabs(): [Uint32Array, Array<Uint8Array>];
    /**
    * The ids that stand for no text of their own, with their names.
    */
    specialTokens(): [Uint32Array, Array<Uint8Array>];
    /**
    * The regular expression that splits text before merges apply.
    */
    splitRegex(): string;
    [Symbol.dispose](): void;
  }
}
