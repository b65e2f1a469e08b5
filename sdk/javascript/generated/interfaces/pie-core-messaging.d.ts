/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:core/messaging' {
  /**
   * Appends a message to a queue. Each message goes to one `pull`.
   */
  export function push(topic: string, message: string): void;
  /**
   * Takes the next message of a queue.
   */
  export function pull(topic: string): FutureString;
  /**
   * Sends a message to every current subscriber.
   */
  export function broadcast(topic: string, message: string): void;
  /**
   * Subscribes to the broadcasts of a topic.
   */
  export function subscribe(topic: string): Subscription;
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  export type FutureString = import('pie:core/types').FutureString;
  
  export class Subscription implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * Ready when a message is waiting, or after `unsubscribe`.
    */
    pollable(): Pollable;
    /**
    * Returns the next message, or none if no message is waiting.
    */
    get(): string | undefined;
    unsubscribe(): void;
    [Symbol.dispose](): void;
  }
}
