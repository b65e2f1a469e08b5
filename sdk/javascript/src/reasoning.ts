/** The model's reasoning, apart from its answer. */
import * as raw from 'pie:instruct/reasoning';
import { rawOf, type Model } from './model.ts';
import { toU32, type Tokens } from './tokens.ts';

/** The meaning of a batch of tokens. */
export type Event =
  /** No reasoning in these tokens. */
  | { readonly type: 'idle' }
  /** A reasoning block begins. */
  | { readonly type: 'start' }
  /** Text of the reasoning. */
  | { readonly type: 'delta'; readonly text: string }
  /** The block is closed; its whole text. */
  | { readonly type: 'end'; readonly text: string };

const IDLE: Event = { type: 'idle' };

/** Follows the reasoning blocks of a turn. */
export class Decoder implements Disposable {
  readonly #raw: raw.Decoder;

  /** A decoder at the beginning of a turn. */
  constructor(model: Model) {
    this.#raw = raw.createDecoder(rawOf(model));
  }

  /** Decodes a batch. An empty batch gives the text that an earlier event has held back. */
  feed(tokens: Tokens): Event {
    const event = this.#raw.feed(toU32(tokens));
    switch (event.tag) {
      case 'start':
        return { type: 'start' };
      case 'delta':
        return event.val === '' ? IDLE : { type: 'delta', text: event.val };
      case 'complete':
        return { type: 'end', text: event.val };
    }
  }

  /** Forgets the turn so far. */
  reset(): void {
    this.#raw.reset();
  }

  /** Gives the decoder back. `using` calls it. */
  [Symbol.dispose](): void {
    this.#raw[Symbol.dispose]();
  }
}
