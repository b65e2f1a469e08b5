/** Grammars, walkers over them, and the schemas that name them. */
import { Grammar as RawGrammar, type Matcher as RawMatcher } from 'pie:core/inference';
import { forcedTokens, fork, rollback } from 'pie:plus/constraints';
import { createMatcher, jsonGrammar } from 'pie:plus/fallible';
import type { Brle } from './brle.ts';
import * as check from './check.ts';
import type { Constraint, Schema } from './constraint.ts';
import { rawOf, Tokenizer, type Model } from './model.ts';
import { toU32, type Tokens } from './tokens.ts';

/** A compiled grammar. */
export class Grammar implements Disposable {
  /** @internal */ readonly raw: RawGrammar;

  /** @internal */
  constructor(raw: RawGrammar) {
    this.raw = raw;
  }

  /** JSON that conforms to a JSON Schema (its text, or the object). */
  static fromJsonSchema(schema: string | object): Grammar {
    return new Grammar(RawGrammar.fromJsonSchema(schemaText(schema)));
  }

  /** Any JSON text. */
  static json(): Grammar {
    return new Grammar(jsonGrammar());
  }

  /** Text that matches a regular expression. */
  static fromRegex(pattern: string): Grammar {
    return new Grammar(RawGrammar.fromRegex(check.text('pattern', pattern)));
  }

  /** Text of a Lark or GBNF grammar. */
  static fromEbnf(source: string): Grammar {
    return new Grammar(RawGrammar.fromEbnf(check.text('source', source)));
  }

  /** The source that the grammar was made from. */
  toString(): string {
    return this.raw.toString();
  }

  /** Gives the grammar back. `using` calls it. */
  [Symbol.dispose](): void {
    this.raw[Symbol.dispose]();
  }
}

/** A walker over a grammar, token by token. */
export class Matcher implements Disposable {
  /** @internal */ get raw(): RawMatcher {
    return this.#raw;
  }
  readonly #raw: RawMatcher;

  /** A matcher at the beginning of the grammar. Throws where the grammar cannot be compiled. */
  constructor(grammar: Grammar, tokenizer: Tokenizer);
  /** @internal */
  constructor(raw: RawMatcher);
  constructor(from: Grammar | RawMatcher, tokenizer?: Tokenizer) {
    if (arguments.length === 1 && !(from instanceof Grammar)) {
      this.#raw = from;
      return;
    }
    const { raw } = check.instance('grammar', from, Grammar, 'Grammar.fromRegex() and others');
    check.instance('tokenizer', tokenizer, Tokenizer, 'model.tokenizer()');
    this.#raw = createMatcher(raw, tokenizer!.raw);
  }

  /** Advances by these tokens, all or none. Throws on one that the grammar does not allow here. */
  acceptTokens(tokens: Tokens): void {
    this.#raw.acceptTokens(toU32(tokens));
  }

  /** Another matcher at the same place of the text. */
  fork(): Matcher {
    return new Matcher(fork(this.#raw));
  }

  /** Takes back the last `count` tokens. Throws if it has accepted fewer. */
  rollback(count: number): void {
    rollback(this.#raw, check.whole('count', count));
  }

  /** The tokens that must come next; empty where there is a choice. */
  forcedTokens(): Uint32Array {
    return forcedTokens(this.#raw);
  }

  /**
   * The mask of the tokens that may come next. Where the text is complete, these are the tokens that end
   * a turn.
   */
  nextTokenLogitMask(): Brle {
    return this.#raw.nextTokenLogitMask();
  }

  /** Whether the text is complete and nothing can follow. */
  isTerminated(): boolean {
    return this.#raw.isTerminated();
  }

  /** Goes back to the beginning of the grammar. */
  reset(): void {
    this.#raw.reset();
  }

  /** Gives the matcher back. `using` calls it. */
  [Symbol.dispose](): void {
    this.#raw[Symbol.dispose]();
  }
}

/** Keeps a generation inside a grammar. The engine can apply it by itself: no mask enters the program. */
export class GrammarConstraint implements Constraint {
  /** @internal */ readonly matcher: Matcher;
  /** The name of this constraint in errors. */
  readonly name: string;

  /** Applies a matcher. Errors call the constraint by `name`. */
  constructor(matcher: Matcher, name = 'grammar') {
    this.matcher = check.instance('matcher', matcher, Matcher, 'new Matcher(grammar, tokenizer)');
    this.name = name;
  }

  /** Restricts the text to a compiled grammar. */
  static fromGrammar(grammar: Grammar, model: Model): GrammarConstraint {
    rawOf(model);
    return new GrammarConstraint(new Matcher(grammar, model.tokenizer()));
  }

  /** Restricts the text to JSON of a JSON Schema (its text, or the object). */
  static fromJsonSchema(schema: string | object, model: Model): GrammarConstraint {
    return ofTemporary(Grammar.fromJsonSchema(schema), model, 'JSON schema');
  }

  /** Restricts the text to any valid JSON. */
  static json(model: Model): GrammarConstraint {
    return ofTemporary(Grammar.json(), model, 'JSON');
  }

  /** Restricts the text to a regular expression, matched as a whole. */
  static fromRegex(pattern: string, model: Model): GrammarConstraint {
    return ofTemporary(Grammar.fromRegex(pattern), model, 'regular expression');
  }

  /** Restricts the text to a grammar in Lark's EBNF or in GBNF. */
  static fromEbnf(source: string, model: Model): GrammarConstraint {
    return ofTemporary(Grammar.fromEbnf(source), model, 'EBNF grammar');
  }

  /** Advances the matcher and gives the next mask. Throws where the grammar forbids a token. */
  step(accepted: Uint32Array): Brle {
    if (accepted.length > 0) this.matcher.acceptTokens(accepted);
    return this.matcher.nextTokenLogitMask();
  }

  /** Whether the text is complete and nothing can follow. */
  isTerminated(): boolean {
    return this.matcher.isTerminated();
  }
}

/** A matcher does not need its grammar once it has been made. */
function ofTemporary(grammar: Grammar, model: Model, name: string): GrammarConstraint {
  try {
    rawOf(model);
    return new GrammarConstraint(new Matcher(grammar, model.tokenizer()), name);
  } finally {
    grammar[Symbol.dispose]();
  }
}

/** Any valid JSON. */
export const anyJson = (): Schema => ({
  buildConstraint: (model) => GrammarConstraint.json(model),
});

/** JSON that conforms to a JSON Schema (its text, or the object). */
export function jsonSchema(schema: string | object): Schema {
  const source = schemaText(schema);
  return { buildConstraint: (model) => GrammarConstraint.fromJsonSchema(source, model) };
}

/** Text that matches a regular expression. */
export function regex(pattern: string): Schema {
  check.text('pattern', pattern);
  return { buildConstraint: (model) => GrammarConstraint.fromRegex(pattern, model) };
}

/** Text of a Lark or GBNF grammar. */
export function ebnf(source: string): Schema {
  check.text('source', source);
  return { buildConstraint: (model) => GrammarConstraint.fromEbnf(source, model) };
}

/** Text of a grammar that was built before. */
export function grammar(built: Grammar): Schema {
  check.instance('grammar', built, Grammar, 'Grammar.fromRegex() and others');
  return { buildConstraint: (model) => GrammarConstraint.fromGrammar(built, model) };
}

function schemaText(schema: string | object): string {
  if (typeof schema === 'string') return schema;
  if (typeof schema === 'object' && schema !== null) return JSON.stringify(schema);
  throw new TypeError(`schema must be a JSON Schema (its text, or the object), not ${check.kind(schema)}`);
}
