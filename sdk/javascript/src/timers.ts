/**
 * `setTimeout` and its family, moved onto the reactor.
 *
 * The JavaScript engine's own timers sleep in a loop that knows nothing of host futures: whichever of
 * the two blocks would starve the other. This module is the first that an inferlet loads, so that
 * libraries which keep a reference to `setTimeout` keep this one.
 */
import { addTimer, cancelTimer } from './reactor.ts';

type Callback = (...args: unknown[]) => void;

let running = false;
/** An interval's id → the timer that stands for its next round. */
const intervals = new Map<number, number>();

/** From here on there is a reactor. */
export function startTimers(): void {
  running = true;
}

function requireReactor(): void {
  if (!running) throw new Error('there are no timers while the inferlet is still being built');
}

function setTimeout(callback: Callback, delay_ms = 0, ...args: unknown[]): number {
  requireReactor();
  return addTimer(Number(delay_ms) || 0, () => callback(...args));
}

function setInterval(callback: Callback, delay_ms = 0, ...args: unknown[]): number {
  requireReactor();
  const pause_ms = Math.max(1, Number(delay_ms) || 0);
  const round = (): void => {
    intervals.set(id, addTimer(pause_ms, round));
    callback(...args);
  };
  const id = addTimer(pause_ms, round);
  intervals.set(id, id);
  return id;
}

function clearTimer(id?: number): void {
  if (id === undefined) return;
  cancelTimer(intervals.get(id) ?? id);
  intervals.delete(id);
}

function timeoutSignal(delay_ms: number): AbortSignal {
  const controller = new AbortController();
  const reason = new DOMException(`timed out after ${delay_ms} ms`, 'TimeoutError');
  setTimeout(() => controller.abort(reason), delay_ms);
  return controller.signal;
}

Object.assign(globalThis, {
  setTimeout,
  setInterval,
  clearTimeout: clearTimer,
  clearInterval: clearTimer,
});
if (typeof AbortSignal !== 'undefined') Object.assign(AbortSignal, { timeout: timeoutSignal });
