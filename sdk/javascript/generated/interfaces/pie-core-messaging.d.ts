/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:core/messaging' {
  /**
   * Append to a queue; one `pull` takes each message.
   */
  export function push(topic: string, message: string): void;
  /**
   * The next message of a queue.
   */
  export function pull(topic: string): FutureString;
  /**
   * Hand a message to every present subscriber.
   */
  export function broadcast(topic: string, message: string): void;
  export function subscribe(topic: string): Subscription;
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  export type FutureString = import('pie:core/types').FutureString;
  
  export class Subscription implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Ready when a message waits, or after `unsubscribe`.
    */
    pollable(): Pollable;
    /**
    * The next message, if one waits.
    */
    get(): string | undefined;
    unsubscribe(): void;
    [Symbol.dispose](): void;
  }
}
