/** Failures as people read them: a message for the client, a stack in terms of the user's files. */

/**
 * For each line of the bundle the user's file and line, as bakery writes it behind the bundle:
 * `files`, and in `lines` pairs of (file index or -1, line) per generated line.
 */
interface SourceLines {
  readonly files: readonly string[];
  readonly lines: readonly number[];
}

export interface Failure {
  readonly message: string;
  readonly stack: string | undefined;
}

export function describe(error: unknown): Failure {
  if (!(error instanceof Error)) return { message: thrownText(error), stack: undefined };
  const message = error.message || error.name;
  const frames = mapFrames(error.stack ?? '');
  return { message, stack: frames && `${error.name}: ${error.message}\n${frames}` };
}

function thrownText(value: unknown): string {
  if (typeof value === 'string') return value;
  return JSON.stringify(value) ?? String(value);
}

/** Frames look like `name@bundle.js:12:5`. Those of the SDK and the engine are of no interest. */
function mapFrames(stack: string): string {
  const table = (globalThis as { __pieSourceLines?: SourceLines }).__pieSourceLines;
  if (!table) return stack.trimEnd();
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
  return frames.join('\n');
}
