/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:core/types' {
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  /**
   * An error message for people. It says what was wrong and what to do.
   */
  export type Error = string;
  /**
   * A row of booleans as run lengths: false, true, false, … The first run may be 0.
   */
  export type Brle = Uint32Array;
  export type Blob = Uint8Array;
  
  export class FutureBlob implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    pollable(): Pollable;
    get(): Blob | undefined;
    [Symbol.dispose](): void;
  }
  
  export class FutureString implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Ready when `get` has a result.
    */
    pollable(): Pollable;
    /**
    * Returns the string, or none if it has not arrived yet or will never arrive.
    */
    get(): string | undefined;
    [Symbol.dispose](): void;
  }
}
