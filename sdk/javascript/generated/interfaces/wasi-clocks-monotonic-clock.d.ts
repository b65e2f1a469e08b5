/// <reference path="./wasi-io-poll.d.ts" />
declare module 'wasi:clocks/monotonic-clock@0.2.12' {
  export function now(): Instant;
  export function resolution(): Duration;
  /**
   * Ready at `when`.
   */
  export function subscribeInstant(when: Instant): Pollable;
  /**
   * Ready after `when` has passed.
   */
  export function subscribeDuration(when: Duration): Pollable;
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  /**
   * Nanoseconds since an arbitrary start.
   */
  export type Instant = bigint;
  /**
   * Nanoseconds.
   */
  export type Duration = bigint;
}
