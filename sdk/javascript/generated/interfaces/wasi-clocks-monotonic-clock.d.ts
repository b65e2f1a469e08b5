/// <reference path="./wasi-io-poll.d.ts" />
declare module 'wasi:clocks/monotonic-clock@0.2.12' {
  export function now(): Instant;
  export function resolution(): Duration;
  /**
   * Returns a pollable that becomes ready at the time `when`.
   */
  export function subscribeInstant(when: Instant): Pollable;
  /**
   * Returns a pollable that becomes ready after `when` nanoseconds.
   */
  export function subscribeDuration(when: Duration): Pollable;
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  /**
   * Nanoseconds since an arbitrary start.
   */
  export type Instant = bigint;
  /**
   * A duration in nanoseconds.
   */
  export type Duration = bigint;
}
