declare module 'wasi:io/poll@0.2.12' {
  /**
   * Wait until at least one is ready; gives the indices of those that are. An empty list traps.
   */
  export function poll(in_: Array<Pollable>): Uint32Array;
  
  export class Pollable implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Is it ready now? Never waits.
    */
    ready(): boolean;
    /**
    * Wait until it is ready.
    */
    block(): void;
    [Symbol.dispose](): void;
  }
}
