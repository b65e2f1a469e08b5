/** Tools in the model's native format. */
import * as raw from 'pie:instruct/tool-use';
import { assembling } from 'pie:plus/calls';
import { createToolDecoder, createToolGrammar, createToolMatcher } from 'pie:plus/fallible';
import { text } from './check.ts';
import { describe } from './failure.ts';
import { Grammar, Matcher } from './grammar.ts';
import { encode, encodeSchemas } from './json.ts';
import { rawOf, type Model } from './model.ts';
import { toU32, type Tokens } from './tokens.ts';

/** A tool's JSON schema: its text, or the object. */
export type ToolSchema = string | object;

/** A call of a tool in an earlier turn; see `Context.assistantCalls`. */
export interface Call {
  /** The tool's name. */
  readonly name: string;
  /** The arguments: an object, or the text of a JSON object. Nothing, or an empty text, stands for no arguments. */
  readonly arguments?: string | object | undefined;
  /** Tells several calls apart. It may be missing or empty. */
  readonly id?: string | undefined;
}

/** The change that a batch of tokens made. */
export type Event =
  /** No tool call here. */
  | { readonly type: 'idle' }
  /** A tool call begins, or goes on. */
  | { readonly type: 'start' }
  /** The call is complete; `args` is JSON. */
  | { readonly type: 'call'; readonly name: string; readonly args: string };

/** Tokens that tell the model which tools it has: append them before the user's message. */
export function equipPrefix(model: Model, schemas: Iterable<ToolSchema>): Uint32Array {
  return raw.equip(rawOf(model), encodeSchemas(schemas));
}

/** Tokens that give a tool's answer back. What is not a string is sent as JSON. */
export function answerPrefix(model: Model, name: string, value: unknown): Uint32Array {
  return raw.answer(rawOf(model), text('name', name), encode(value));
}

/** In the engine's error for a model without such a format. */
const NO_FORM = 'has no form of tool calls that a grammar can hold';

/**
 * The grammar of the model's own call format; undefined where it has none that can be enforced. Throws on a wrong
 * schema.
 */
export function nativeGrammar(model: Model, schemas: Iterable<ToolSchema>): Grammar | undefined {
  const grammar = createToolGrammar(rawOf(model), encodeSchemas(schemas));
  return grammar && new Grammar(grammar);
}

/**
 * A matcher of the model's own call format, for `new GrammarConstraint(matcher)`. Undefined where the
 * model has none that can be enforced: generate freely and parse for yourself. Throws on a wrong schema.
 */
export function nativeMatcher(model: Model, schemas: Iterable<ToolSchema>): Matcher | undefined {
  const texts = encodeSchemas(schemas);
  try {
    return new Matcher(createToolMatcher(rawOf(model), texts));
  } catch (error) {
    if (describe(error).message.includes(NO_FORM)) return undefined;
    throw error;
  }
}

/** Finds tool calls in a turn. */
export class Decoder implements Disposable {
  readonly #raw: raw.Decoder;

  /** A decoder at the beginning of a turn. */
  constructor(model: Model) {
    this.#raw = createToolDecoder(rawOf(model));
  }

  /**
   * Decodes a batch. When it completes several calls, each following `feed`, also of an empty batch,
   * returns the next call.
   */
  feed(tokens: Tokens): Event {
    const event = this.#raw.feed(toU32(tokens));
    // The engine answers "start" for text without a call, too.
    if (event.tag === 'start') return { type: assembling(this.#raw) ? 'start' : 'idle' };
    const [name, args] = event.val;
    return { type: 'call', name, args };
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
