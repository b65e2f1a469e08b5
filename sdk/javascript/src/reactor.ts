/**
 * The event loop of an inferlet: promises on top of `wasi:io/poll`.
 *
 * Everything that waits, timers included, waits in the one `poll` call of `turn`, so that whichever
 * is ready first wakes the program. One inferlet has one reactor, on its only thread.
 */
import { now, subscribeInstant } from 'wasi:clocks/monotonic-clock@0.2.12';
import { poll, type Pollable } from 'wasi:io/poll@0.2.12';

interface Wait {
  readonly pollable: Pollable;
  readonly wake: () => void;
  /** The owner of the pass; undefined if it is not a pass. */
  readonly owner: object | undefined;
}

interface Timer {
  readonly id: number;
  readonly due_ns: bigint;
  readonly fire: () => void;
}

// Taken before `timers.ts` puts its own in place. It is the engine's only macrotask: once it fires,
// no microtask is left.
const nativeTimeout: (callback: () => void, ms: number) => unknown = globalThis.setTimeout;

let waits: Wait[] = [];
/** Earliest first; equal times in the order in which they were set. */
const timers: Timer[] = [];
let nextTimerId = 1;
/** The owner of the only passes that the program has waited for in the last `aloneTurns` turns. */
let alone: object | undefined;
let aloneTurns = 0;
/** Passes that have blocked the program since it began. */
let blockingPasses = 0;
let alarm: { readonly due_ns: bigint; readonly pollable: Pollable } | undefined;

/** Turns after which the only owner that waits is assumed to be the only part of the program that runs. */
const ALONE_TURNS = 3;
/** Every n-th pass takes a turn even so, because only turns let JavaScript's own timers and finalizers run. */
const BLOCKING_PASSES = 256;

/** Resolves once `pollable` is ready, and drops it then (or when `signal` aborts the wait). */
export function ready(pollable: Pollable, signal?: AbortSignal): Promise<void> {
  return join(pollable, signal, undefined);
}

/** Does the same for a pass of `owner`. */
export function passReady(pollable: Pollable, owner: object): Promise<void> {
  return join(pollable, undefined, owner);
}

/**
 * Whether a pass of `owner` may block the program: nothing else waits, and nothing else has waited for some turns.
 * That spares the turn. If another part of the program starts a pass meanwhile, the two are batched from their
 * second passes on.
 */
export function mayBlock(owner: object): boolean {
  return (
    owner === alone &&
    aloneTurns >= ALONE_TURNS &&
    waits.length === 0 &&
    timers.length === 0 &&
    ++blockingPasses % BLOCKING_PASSES !== 0
  );
}

function join(
  pollable: Pollable,
  signal: AbortSignal | undefined,
  owner: object | undefined,
): Promise<void> {
  if (owner === undefined || owner !== alone) {
    alone = owner;
    aloneTurns = 0;
  }
  return new Promise((resolve, reject) => {
    const wait: Wait = { pollable, wake: resolve, owner };
    waits.push(wait);
    signal?.addEventListener('abort', () => {
      const at = waits.indexOf(wait);
      if (at < 0) return;
      waits.splice(at, 1);
      pollable[Symbol.dispose]();
      reject(signal.reason);
    });
  });
}

/** Calls `fire` after `delay_ms`; the id cancels it. */
export function addTimer(delay_ms: number, fire: () => void): number {
  const due_ns = now() + BigInt(Math.max(0, Math.round(delay_ms * 1e6)));
  const timer: Timer = { id: nextTimerId++, due_ns, fire };
  let at = timers.length;
  while (at > 0 && timers[at - 1]!.due_ns > due_ns) at--;
  timers.splice(at, 0, timer);
  return timer.id;
}

export function cancelTimer(id: number): void {
  const at = timers.findIndex((timer) => timer.id === id);
  if (at >= 0) timers.splice(at, 1);
}

/** Runs the loop until `task` has settled, then drops what still waits. */
export async function drive<T>(task: Promise<T>): Promise<T> {
  let settled = false;
  const settle = (): void => {
    settled = true;
  };
  task.then(settle, settle);
  try {
    for (;;) {
      // Before blocking, let everything that can run do so: what it asks for joins the same poll,
      // and several generations land in the same batch.
      await new Promise<void>((resolve) => nativeTimeout(resolve, 0));
      if (settled) return await task;
      turn();
    }
  } finally {
    abandonAll();
  }
}

/** Waits until something is ready and wakes it. */
function turn(): void {
  const pollables: Pollable[] = [];
  for (let i = 0; i < waits.length; i++) pollables.push(waits[i]!.pollable);
  const clock = nextAlarm();
  if (clock) pollables.push(clock);
  if (pollables.length === 0) {
    throw new Error(
      'main waits for a promise that nothing can resolve: no timer, pass or message is pending',
    );
  }
  if (waits.length === 1 && !clock && waits[0]!.owner === alone) aloneTurns++;
  else aloneTurns = 0;
  const hits = poll(pollables); // in no particular order
  const isReady = new Uint8Array(pollables.length);
  for (let i = 0; i < hits.length; i++) isReady[hits[i]!] = 1;

  const polled = waits;
  waits = [];
  for (let i = 0; i < polled.length; i++) {
    const wait = polled[i]!;
    if (isReady[i] === 0) {
      waits.push(wait);
    } else {
      wait.pollable[Symbol.dispose]();
      wait.wake();
    }
  }
  if (clock && isReady[polled.length] === 1) fireDueTimers();
}

/** The pollable of the earliest timer, kept from turn to turn while that timer stays the earliest. */
function nextAlarm(): Pollable | undefined {
  const first = timers[0];
  if (alarm && alarm.due_ns !== first?.due_ns) dropAlarm();
  if (first && !alarm) alarm = { due_ns: first.due_ns, pollable: subscribeInstant(first.due_ns) };
  return alarm?.pollable;
}

function dropAlarm(): void {
  alarm?.pollable[Symbol.dispose]();
  alarm = undefined;
}

function fireDueTimers(): void {
  const time_ns = now();
  let due = 0;
  while (due < timers.length && timers[due]!.due_ns <= time_ns) due++;
  for (const timer of timers.splice(0, due)) timer.fire();
}

function abandonAll(): void {
  for (const wait of waits) wait.pollable[Symbol.dispose]();
  waits = [];
  timers.length = 0;
  dropAlarm();
}
