declare module 'wasi:io/poll@0.2.12' {
  /**
   * Waits until at least one pollable is ready and returns the indices of all that are. An empty list traps.
   */
  export function poll(in_: Array<Pollable>): Uint32Array;
  
  export class Pollable implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Returns whether the event is ready. Never waits.
    */
    ready(): boolean;
    /**
    * Waits until the event is ready.
    */
    block(): void;
    [Symbol.dispose](): void;
  }
}
