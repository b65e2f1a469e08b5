/** The function that bakery exports as the component's `run`: JSON in, `main`, JSON (or a string) out. */
import { startConsole } from './console.ts';
import { encodeReturn } from './json.ts';
import { drive } from './reactor.ts';
import { describe } from './failure.ts';
import { startTimers } from './timers.ts';

export type Main = (input: never) => unknown;

/** Rejects with a *string*: that becomes the WIT error; an Error object would abort the instance. */
export async function serve(main: Main, text: string): Promise<string> {
  startTimers();
  startConsole();
  try {
    const input = parseInput(text) as never;
    return encodeReturn(await drive(Promise.resolve().then(() => main(input))));
  } catch (error) {
    throw describe(error).text;
  }
}

function parseInput(text: string): unknown {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return { input: text };
  }
}
