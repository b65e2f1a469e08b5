/** The model's reasoning, apart from its answer. */
import * as raw from 'pie:instruct/reasoning';
import type { Model } from './model.ts';
import { toU32, type Tokens } from './tokens.ts';

export type Event =
  /** No reasoning in these tokens. */
  | { readonly type: 'idle' }
  /** A reasoning block begins. */
  | { readonly type: 'start' }
  | { readonly type: 'delta'; readonly text: string }
  /** The block is closed; its whole text. */
  | { readonly type: 'end'; readonly text: string };

const IDLE: Event = { type: 'idle' };

export class Decoder implements Disposable {
  readonly #raw: raw.Decoder;

  constructor(model: Model) {
    this.#raw = raw.createDecoder(model.raw);
  }

  feed(tokens: Tokens): Event {
    const ids = toU32(tokens);
    if (ids.length === 0) return IDLE;
    const event = this.#raw.feed(ids);
    switch (event.tag) {
      case 'start':
        return { type: 'start' };
      case 'delta':
        return event.val === '' ? IDLE : { type: 'delta', text: event.val };
      case 'complete':
        return { type: 'end', text: event.val };
    }
  }

  reset(): void {
    this.#raw.reset();
  }

  [Symbol.dispose](): void {
    this.#raw[Symbol.dispose]();
  }
}
