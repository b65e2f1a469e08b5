/** Texts and blobs that arrive later. */
import type { Pollable } from 'wasi:io/poll@0.2.12';
import { ready } from './reactor.ts';

interface Future<T> extends Disposable {
  pollable(): Pollable;
  get(): T | undefined;
}

/** Waits for a host future and drops it. Undefined once its source is gone. */
export async function arrival<T>(future: Future<T>, signal?: AbortSignal): Promise<T | undefined> {
  try {
    signal?.throwIfAborted();
    await ready(future.pollable(), signal);
    return future.get();
  } finally {
    future[Symbol.dispose]();
  }
}

/**
 * Lets calls that wait at the same time share one arrival. A `Promise.race` against a timer leaves
 * its loser waiting; without this, that forgotten wait would swallow the next message.
 */
export function shared<T>(next: () => Promise<T>): () => Promise<T> {
  let waiting: Promise<T> | undefined;
  return () =>
    (waiting ??= next().finally(() => {
      waiting = undefined;
    }));
}
