/** Messages between inferlets of one engine. */
import type { Subscription as RawSubscription } from 'pie:core/messaging';
import { dropped } from 'pie:plus/broadcasts';
import * as raw from 'pie:plus/fallible';
import * as check from './check.ts';
import { describe } from './failure.ts';
import { arrival, shared } from './inbox.ts';
import { encode } from './json.ts';
import { ready } from './reactor.ts';

/** Sends a message to every present subscriber. A value that is not a string is sent as JSON. */
export function broadcast(topic: string, message: unknown): void {
  raw.broadcast(check.text('topic', topic), encode(message));
}

/** Keeps the broadcasts of a topic until they are read. */
export function subscribe(topic: string): Subscription {
  return new Subscription(raw.subscribe(check.text('topic', topic)));
}

/**
 * Appends to a queue; one `pull` takes each message. What is not a string is sent as JSON. Throws when the
 * queue is full.
 */
export function push(topic: string, message: unknown): void {
  raw.push(check.text('topic', topic), encode(message));
}

/** How the engine's error for a full queue begins. */
const FULL = 'the queue is full';

/** Like `push`, but waits while the queue is full. */
export async function pushWait(topic: string, message: unknown): Promise<void> {
  for (let pause = 1; ; pause = Math.min(2 * pause, 50)) {
    try {
      return push(topic, message);
    } catch (error) {
      if (!describe(error).message.startsWith(FULL)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** The next message of a queue. Aborting `signal` cancels the wait, which then takes no message. */
export async function pull(topic: string, options: { signal?: AbortSignal } = {}): Promise<string> {
  const message = await arrival(raw.pull(check.text('topic', topic)), options.signal);
  if (message === undefined) throw new Error(`the queue ${topic} is closed: no further message will arrive`);
  return message;
}

/** The broadcasts of a topic, kept until they are read. `messaging.subscribe` makes one. */
export class Subscription implements AsyncIterable<string>, Disposable {
  readonly #raw: RawSubscription;
  #open = true;
  #pending = 0;

  /** @internal Use `messaging.subscribe`. */
  constructor(subscription: RawSubscription) {
    this.#raw = subscription;
  }

  /** The next broadcast; undefined after `unsubscribe`. Calls that wait at once get the same one. */
  readonly next: () => Promise<string | undefined> = shared(async () => {
    this.#pending++;
    try {
      while (this.#open) {
        const message = this.#raw.get();
        if (message !== undefined) return message;
        await ready(this.#raw.pollable());
      }
      return undefined;
    } finally {
      this.#pending--;
      this.#dropWhenOver();
    }
  });

  /** How many messages were dropped, oldest first, because the buffer was full. */
  get dropped(): number {
    return Number(dropped(this.#raw));
  }

  /** Ends the subscription. */
  unsubscribe(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#raw.unsubscribe();
    this.#dropWhenOver();
  }

  /** One message after the other: `for await (const message of subscription)`. */
  async *[Symbol.asyncIterator](): AsyncIterator<string> {
    for (let message = await this.next(); message !== undefined; message = await this.next()) {
      yield message;
    }
  }

  /** Ends the subscription. `using` calls it. */
  [Symbol.dispose](): void {
    this.unsubscribe();
  }

  /** Waits until `next` has released its pollable, which belongs to the handle. */
  #dropWhenOver(): void {
    if (!this.#open && this.#pending === 0) this.#raw[Symbol.dispose]();
  }
}
