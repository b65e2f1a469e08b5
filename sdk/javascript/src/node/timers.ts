/** `node:timers/promises`: timers that are awaited. An `AbortSignal` ends the wait. */

/** Options of a timer, besides its delay and its value. */
export interface TimerOptions {
  signal?: AbortSignal;
  /** Has no effect: an inferlet ends when its `main` does. */
  ref?: boolean;
}

/** Waits, and returns `value`. */
function wait<T>(delay_ms = 1, value?: T, { signal }: TimerOptions = {}): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(aborted(signal));
    const abort = (): void => {
      globalThis.clearTimeout(timer);
      reject(aborted(signal));
    };
    const timer = globalThis.setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve(value as T);
    }, delay_ms);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

function aborted(signal: AbortSignal | undefined): Error {
  const error = new Error('The operation was aborted', { cause: signal?.reason });
  return Object.assign(error, { name: 'AbortError', code: 'ABORT_ERR' });
}

/** Waits until the other tasks have had their turn, and returns `value`. */
export function setImmediate<T = void>(value?: T, options?: TimerOptions): Promise<T> {
  return wait(0, value, options);
}

/** Gives `value` again and again, each time after `delay_ms`. */
export async function* setInterval<T = void>(
  delay_ms?: number,
  value?: T,
  options?: TimerOptions,
): AsyncGenerator<T, void> {
  for (;;) yield await wait(delay_ms, value, options);
}

export const scheduler = {
  wait: (delay_ms?: number, options?: TimerOptions): Promise<void> =>
    wait<void>(delay_ms, undefined, options),
  yield: (): Promise<void> => setImmediate(),
};

export { wait as setTimeout };
export default { setTimeout: wait, setImmediate, setInterval, scheduler };
