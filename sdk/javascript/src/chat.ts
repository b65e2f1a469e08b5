/** Chat turns as the model's own template writes them, and the way back from tokens to text. */
import * as raw from 'pie:instruct/chat';
import type { Model } from './model.ts';
import { toU32, type Tokens } from './tokens.ts';

export const system = (model: Model, text: string): Uint32Array => raw.system(model.raw, text);
export const user = (model: Model, text: string): Uint32Array => raw.user(model.raw, text);
export const assistant = (model: Model, text: string): Uint32Array => raw.assistant(model.raw, text);
/** What stands before the model's own turn. */
export const cue = (model: Model): Uint32Array => raw.cue(model.raw);
/** What closes it. */
export const seal = (model: Model): Uint32Array => raw.seal(model.raw);
/** Ids that end a turn. */
export const stopTokens = (model: Model): Uint32Array => raw.stopTokens(model.raw);

export type Event =
  /** Nothing to show yet. */
  | { readonly type: 'idle' }
  /** Text that became visible. */
  | { readonly type: 'delta'; readonly text: string }
  /** The turn has ended; its whole text. */
  | { readonly type: 'done'; readonly text: string }
  /** A control token that the text does not show. */
  | { readonly type: 'interrupt'; readonly token: number };

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
      case 'delta':
        return event.val === '' ? IDLE : { type: 'delta', text: event.val };
      case 'done':
        return { type: 'done', text: event.val };
      case 'interrupt':
        return { type: 'interrupt', token: event.val };
    }
  }

  reset(): void {
    this.#raw.reset();
  }

  [Symbol.dispose](): void {
    this.#raw[Symbol.dispose]();
  }
}
