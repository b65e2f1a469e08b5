/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:core/runtime' {
  /**
   * The engine's version.
   */
  export function version(): string;
  /**
   * The id of this run of the inferlet.
   */
  export function instanceId(): string;
  /**
   * The user who launched this inferlet.
   */
  export function username(): string;
  /**
   * The names of the loaded models; the default model comes first.
   */
  export function models(): Array<string>;
  /**
   * Launches another inferlet (`name` or `name@X.Y.Z`) with a JSON input, as the same user.
   */
  export function launch(program: string, input: string): Child;
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  export type Error = import('pie:core/types').Error;
  export type Result<T, E> = { tag: 'ok', val: T } | { tag: 'err', val: E };
  
  export class Child implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Ready when the child has ended.
    */
    pollable(): Pollable;
    /**
    * Returns none while the child runs, then its return value or its error.
    */
    get(): Result<string, Error> | undefined;
    /**
    * The child's instance id.
    */
    pid(): string;
    /**
    * Stops the child.
    */
    cancel(): void;
    [Symbol.dispose](): void;
  }
}
