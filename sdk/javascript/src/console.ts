/**
 * `console.log` and its family, which write a whole text at once: one call is one event of the client.
 *
 * The JavaScript engine's own console writes the text and the newline one after the other. Before an
 * inferlet runs, while it is built, there is no other. Methods that are not here (`table`, `time`, …)
 * stay the engine's own.
 */
import { getStderr } from 'wasi:cli/stderr@0.2.12';
import { getStdout } from 'wasi:cli/stdout@0.2.12';
import type { OutputStream } from 'wasi:io/streams@0.2.12';
import { format } from './inspect.ts';

const INDENT = '  ';
const encoder = new TextEncoder();
let depth = 0;

/** From here on there is a stream to print to. */
export function startConsole(): void {
  const out = printer(getStdout());
  const err = printer(getStderr());
  Object.assign(console, {
    log: out,
    info: out,
    debug: out,
    dir: (value: unknown) => out(value),
    warn: err,
    error: err,
    trace: (...values: unknown[]) => err('Trace:', ...values),
    assert: (holds: unknown, ...values: unknown[]) => holds || err('Assertion failed:', ...values),
    group: (...label: unknown[]) => {
      if (label.length > 0) out(...label);
      depth++;
    },
    groupEnd: () => {
      depth = Math.max(0, depth - 1);
    },
  });
}

function printer(stream: OutputStream): (...values: unknown[]) => void {
  return (...values) => {
    let text = format(values);
    if (depth > 0) text = text.replace(/^/gm, INDENT.repeat(depth));
    write(stream, encoder.encode(`${text}\n`));
  };
}

/** Waits while the client has not taken what was printed before, as printing does in every language. */
function write(stream: OutputStream, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) {
    const room = Number(stream.checkWrite());
    if (room === 0) {
      using pollable = stream.subscribe();
      pollable.block();
      continue;
    }
    stream.write(bytes.subarray(at, at + room));
    at += room;
  }
}
