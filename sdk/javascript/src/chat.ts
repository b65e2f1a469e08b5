/** Chat turns as the model's own template writes them, and the way back from tokens to text. */
import * as check from './check.ts';
import * as raw from 'pie:instruct/chat';
import { rawOf, type Model } from './model.ts';
import { toU32, type Tokens } from './tokens.ts';

/** Tokens of a system message. */
export const system = (model: Model, text: string): Uint32Array => raw.system(rawOf(model), check.text('text', text));
/** Tokens of a user message. */
export const user = (model: Model, text: string): Uint32Array => raw.user(rawOf(model), check.text('text', text));
/** Tokens of an assistant's turn. */
export const assistant = (model: Model, text: string): Uint32Array =>
  raw.assistant(rawOf(model), check.text('text', text));
/** Tokens that open the model's own turn. */
export const cue = (model: Model): Uint32Array => raw.cue(rawOf(model));
/** Tokens that close the model's own turn. */
export const seal = (model: Model): Uint32Array => raw.seal(rawOf(model));
/** Ids of the tokens that end a turn or the text. */
export const stopTokens = (model: Model): Uint32Array => raw.stopTokens(rawOf(model));

/** The meaning of a batch of tokens. */
export type Event =
  /** Nothing to show yet. */
  | { readonly type: 'idle' }
  /** Text that became visible. */
  | { readonly type: 'delta'; readonly text: string }
  /** The turn has ended; its whole text. */
  | { readonly type: 'done'; readonly text: string }
  /** A control token that the text does not show. Text around it comes with the next `feed`. */
  | { readonly type: 'interrupt'; readonly token: number };

const IDLE: Event = { type: 'idle' };

/** Turns tokens into visible text, whole characters only. */
export class Decoder implements Disposable {
  readonly #raw: raw.Decoder;

  /** A decoder at the beginning of a turn. */
  constructor(model: Model) {
    this.#raw = raw.createDecoder(rawOf(model));
  }

  /** Decodes a batch. An empty batch gives the text that an `interrupt` has held back. */
  feed(tokens: Tokens): Event {
    const event = this.#raw.feed(toU32(tokens));
    switch (event.tag) {
      case 'delta':
        return event.val === '' ? IDLE : { type: 'delta', text: event.val };
      case 'done':
        return { type: 'done', text: event.val };
      case 'interrupt':
        return { type: 'interrupt', token: event.val };
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
