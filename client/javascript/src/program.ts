/** A program beside this client, with lines in both directions. */
export interface Program {
  write(text: string): void;
  /** Closes its input, and kills it if it does not end. */
  stop(): Promise<void>;
}

export interface ProgramHandlers {
  onLine(line: string): void;
  /** Called once, with the reason. */
  onEnd(why: string): void;
}
