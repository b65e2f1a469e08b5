/** A document that thoughts may precede. The engine knows how the model marks its thoughts. */
import { marks, type Format } from 'pie:plus/thoughts';
import { rawOf, type Model } from './model.ts';

export class Thoughts {
  readonly #marks: Format;

  constructor(format: Format) {
    this.#marks = format;
  }

  /** Undefined if the model has no marks. */
  static of(model: Model): Thoughts | undefined {
    const format = marks(rawOf(model));
    return format && new Thoughts(format);
  }

  /** Whether the model's turn begins inside of its thoughts. */
  get begun(): boolean {
    return this.#marks.beginsInside;
  }

  /** The Lark grammar of a document of this JSON Schema, after thoughts if there are any. */
  grammar(schema: string): string {
    const thoughts = this.begun ? 'thoughts' : 'thoughts?';
    return `start: ${thoughts} document\n${this.#marks.rules}document: %json ${schema}\n`;
  }

  /** The text after the thoughts. */
  document(model: Model, tokens: Uint32Array): string {
    const tokenizer = model.tokenizer();
    const { open, close, closeToken } = this.#marks;
    if (closeToken !== undefined) {
      // No document can contain this token, but the marks around the thoughts may contain it.
      const after = tokens.subarray(tokens.lastIndexOf(closeToken) + 1);
      return tokenizer.decode(after, { skipSpecialTokens: true });
    }
    const text = tokenizer.decode(tokens, { skipSpecialTokens: true });
    if (!this.begun && !tokenizer.decode(tokens).startsWith(open)) return text;
    const end = text.indexOf(close);
    return end < 0 ? '' : text.slice(end + close.length);
  }
}
