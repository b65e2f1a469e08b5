/**
 * How a model marks its reasoning, as far as a grammar has to know: a document that thoughts may precede.
 *
 * The engine's decoder of reasoning knows the marks. It is asked which of the usual ones it takes.
 */
import type { Model } from './model.ts';
import { Decoder } from './reasoning.ts';

const PAIRS = [
  ['<think>', '</think>'],
  ['[THINK]', '[/THINK]'],
  ['<seed:think>', '</seed:think>'],
  ['<|START_THINKING|>', '<|END_THINKING|>'],
  ['<|inner_prefix|>', '<|inner_suffix|>'],
  ['<|channel>thought', '<channel|>'],
  ['<thinking>', '</thinking>'],
  ['<thought>', '</thought>'],
] as const;

/** A mark; one that is a special token has an id. */
interface Mark {
  readonly text: string;
  readonly id: number | undefined;
}

export class Thoughts {
  /** The model's turn begins inside of its thoughts. */
  readonly begun: boolean;
  readonly #open: Mark;
  readonly #close: Mark;

  constructor(open: Mark, close: Mark, begun: boolean) {
    this.#open = open;
    this.#close = close;
    this.begun = begun;
  }

  /** Undefined if the model has no marks, or unusual ones. */
  static of(model: Model): Thoughts | undefined {
    const tokenizer = model.tokenizer();
    const [ids, names] = tokenizer.specialTokens();
    const special = new Map(names.map((name, i) => [new TextDecoder().decode(name), ids[i]!]));
    const markOf = (text: string): Mark => ({ text, id: special.get(text) });
    const tokensOf = ({ text, id }: Mark) => (id === undefined ? tokenizer.encode(text) : [id]);
    const eventOf = (tokens: Iterable<number>) => {
      using decoder = new Decoder(model);
      return decoder.feed(tokens).type;
    };
    const inner = tokenizer.encode('a');
    const begun = eventOf(inner) === 'start';
    for (const [opening, closing] of PAIRS) {
      const [open, close] = [markOf(opening), markOf(closing)];
      if (eventOf([...tokensOf(open), ...inner, ...tokensOf(close)]) === 'end') {
        return new Thoughts(open, close, begun);
      }
    }
    return undefined;
  }

  /** The Lark grammar of a document of this JSON Schema, after thoughts if there are any. */
  grammar(schema: string): string {
    const written = ({ text, id }: Mark) => (id === undefined ? JSON.stringify(text) : `<[${id}]>`);
    const rest =
      this.#close.id === undefined
        ? `rest[suffix=${written(this.#close)}]: /(?s:.*)/`
        : `rest: /(?s:.*)/ ${written(this.#close)}`;
    const thoughts = this.begun ? 'rest SPACE' : `(${written(this.#open)} rest SPACE)?`;
    const space = 'SPACE: /[ \\n\\r\\t]{0,8}/';
    return `start: ${thoughts} document\n${rest}\n${space}\ndocument: %json ${schema}\n`;
  }

  /** The text after the thoughts. */
  document(model: Model, tokens: Uint32Array): string {
    const tokenizer = model.tokenizer();
    if (this.#close.id !== undefined) {
      const after = tokens.subarray(tokens.indexOf(this.#close.id) + 1);
      return tokenizer.decode(after, { skipSpecialTokens: true });
    }
    const text = tokenizer.decode(tokens, { skipSpecialTokens: true });
    if (!this.begun && !text.startsWith(this.#open.text)) return text;
    const end = text.indexOf(this.#close.text);
    return end < 0 ? '' : text.slice(end + this.#close.text.length);
  }
}
