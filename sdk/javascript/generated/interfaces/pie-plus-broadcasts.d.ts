/// <reference path="./pie-core-messaging.d.ts" />
declare module 'pie:plus/broadcasts' {
  /**
   * Returns how many messages the subscription has dropped, because its buffer was full: the oldest ones.
   */
  export function dropped(subscription: Subscription): bigint;
  export type Subscription = import('pie:core/messaging').Subscription;
}
