/** The kinds of what a process can say. */
export const Event = {
  /** What was printed, or sent by `session.send`. */
  Stdout: 'stdout',
  Stderr: 'stderr',
  Message: 'message',
  File: 'file',
  /** The last one of a process that ended well: what its `main` returned. */
  Return: 'return',
  /** The last one of a process that did not. */
  Error: 'error',
} as const;
export type Event = (typeof Event)[keyof typeof Event];

/** One event: of a file its bytes, else a text. */
export type ProcessEvent =
  | { event: typeof Event.File; value: Uint8Array }
  | { event: Exclude<Event, typeof Event.File>; value: string };

export const isLast = (said: ProcessEvent): boolean =>
  said.event === Event.Return || said.event === Event.Error;
