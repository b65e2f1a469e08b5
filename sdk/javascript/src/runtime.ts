/** The engine around this inferlet, and other inferlets that it starts. */
import * as raw from 'pie:core/runtime';
import { text } from './check.ts';
import { encode } from './json.ts';
import { ready } from './reactor.ts';

/** Names of the loaded models, the default one first. */
export const models = (): string[] => raw.models();

/** The engine's version. */
export const version = (): string => raw.version();

/** The id of this running inferlet. */
export const instanceId = (): string => raw.instanceId();

/** The user who launched this inferlet. */
export const username = (): string => raw.username();

/** Starts another inferlet (`name` or `name@1.2.3`) as the same user. `input` is sent as JSON. */
export function launch(program: string, input: unknown = {}): Child {
  return new Child(raw.launch(text('program', program), encode(input)));
}

/** A launched inferlet. Disposing it detaches; the child runs on. */
export class Child implements Disposable {
  readonly #raw: raw.Child;

  /** @internal Use `runtime.launch`. */
  constructor(child: raw.Child) {
    this.#raw = child;
  }

  /** The child's instance id. */
  get pid(): string {
    return this.#raw.pid();
  }

  /** Waits for the child's return value; rejects with the child's error. */
  async result(): Promise<string> {
    await ready(this.#raw.pollable());
    const ended = this.#raw.get();
    if (ended?.tag === 'ok') return ended.val;
    throw new Error(ended?.val ?? 'the child inferlet ended without a result');
  }

  /** Stops the child. */
  cancel(): void {
    this.#raw.cancel();
  }

  /** Gives the handle back; the child runs on by itself. `using` calls it. */
  [Symbol.dispose](): void {
    this.#raw[Symbol.dispose]();
  }
}
