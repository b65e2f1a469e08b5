/** Failures as people read them: a message, and a trace in terms of the user's files. */

/**
 * For each line of the bundle the user's file and line, as bakery writes it after the bundle:
 * `files`, and in `lines` pairs of (file index or -1, line) per generated line.
 */
interface SourceLines {
  readonly files: readonly string[];
  readonly lines: readonly number[];
}

export interface Failure {
  readonly message: string;
  /** The message, and then the lines of the program that the error has passed, innermost first. */
  readonly text: string;
  /** The same for a reader of the program: it begins with the name of the error. */
  readonly stack: string;
}

export function describe(error: unknown): Failure {
  if (!(error instanceof Error)) {
    const message = thrownText(error);
    return { message, text: message, stack: message };
  }
  const message = error.message || error.name;
  // An error that has a text of its own, as that of MCP has, is shown by it.
  const shown = error.toString === Error.prototype.toString ? message : String(error);
  const trace = traceOf(error, 0);
  return { message, text: [shown, ...trace].join('\n'), stack: [headline(error), ...trace].join('\n') };
}

/** The frames that a trace shows: the innermost and the outermost ones. */
const FIRST_FRAMES = 16;
const LAST_FRAMES = 4;

/** How many errors a trace follows from an error to what caused it. An error may cause itself. */
const MAX_CAUSES = 8;

/** The frames of an error, and those of the errors that it came from. */
function traceOf(error: Error, depth: number): string[] {
  const lines = mapFrames(error.stack ?? '');
  const leftOut = lines.length - FIRST_FRAMES - LAST_FRAMES;
  if (leftOut > 1) lines.splice(FIRST_FRAMES, leftOut, `    ... ${leftOut} more`);
  if (depth === MAX_CAUSES) return lines;
  const parts: unknown[] = error instanceof AggregateError ? error.errors.slice(0, MAX_CAUSES) : [];
  for (const part of parts) lines.push(`one of them: ${headline(part)}`, ...traceOfAny(part, depth + 1));
  if (error.cause !== undefined) {
    lines.push(`caused by ${headline(error.cause)}`, ...traceOfAny(error.cause, depth + 1));
  }
  return lines;
}

function traceOfAny(value: unknown, depth: number): string[] {
  return value instanceof Error ? traceOf(value, depth) : [];
}

function headline(value: unknown): string {
  return value instanceof Error ? `${value.name}: ${value.message}` : thrownText(value);
}

/** The text of what was thrown without being an `Error`. The message of some is no part of their JSON (DOMException). */
function thrownText(value: unknown): string {
  if (typeof value === 'string') return value;
  const json = JSON.stringify(value) ?? String(value);
  if (json !== '{}') return json;
  const { name, message } = value as { name?: unknown; message?: unknown };
  return String(message || name || json);
}

/** Frames look like `name@bundle.js:12:5`. Frames of the SDK and the engine are left out. */
function mapFrames(stack: string): string[] {
  const table = (globalThis as { __pieSourceLines?: SourceLines }).__pieSourceLines;
  if (!table) return stack.split('\n').filter((line) => line !== '');
  const frames: string[] = [];
  for (const frame of stack.split('\n')) {
    const parts = /^(.*)@(.*):(\d+):\d+$/.exec(frame);
    if (!parts || parts[2]!.includes('initializer.js')) continue;
    const at = (Number(parts[3]) - 1) * 2;
    const file = table.files[table.lines[at] ?? -1];
    if (file === undefined) continue;
    const name = parts[1]!.replace(/^async\*/, '') || 'top level';
    frames.push(`    at ${name} (${file}:${table.lines[at + 1]})`);
  }
  return frames;
}
