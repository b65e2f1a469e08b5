/** The kinds of events of a process. */
export const Event = {
  /** Text that the process printed, or sent with `session.send`. */
  Stdout: 'stdout',
  Stderr: 'stderr',
  Message: 'message',
  File: 'file',
  /** The last event of a process that succeeded. The value is the return value of its `main`. */
  Return: 'return',
  /** The last event of a process that failed. */
  Error: 'error',
} as const;
export type Event = (typeof Event)[keyof typeof Event];

/** An event. Its value is a string, or bytes for a file. */
export type ProcessEvent =
  | { event: typeof Event.File; value: Uint8Array }
  | { event: Exclude<Event, typeof Event.File>; value: string };

export const isLast = (said: ProcessEvent): boolean =>
  said.event === Event.Return || said.event === Event.Error;
