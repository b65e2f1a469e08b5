/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:core/model' {
  export type Error = import('pie:core/types').Error;
  
  export class Model implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Returns a model that the engine has loaded.
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
    /**
    * Encodes a text and adds nothing to it. Names of special tokens in it become those tokens.
    */
    encode(text: string): Uint32Array;
    /**
    * Decodes tokens. Special tokens become their names. An id outside the vocabulary is an error.
    */
    decode(tokens: Uint32Array): string;
    /**
    * Returns every token id with its bytes.
    */
    vocabs(): [Uint32Array, Array<Uint8Array>];
    /**
    * Returns the special tokens with their names. They stand for no text.
    */
    specialTokens(): [Uint32Array, Array<Uint8Array>];
    /**
    * Returns the regular expression that splits a text before merges are applied.
    */
    splitRegex(): string;
    [Symbol.dispose](): void;
  }
}
