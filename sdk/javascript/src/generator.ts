/** Generations: their settings, steps and collectors. */
import * as rawChat from 'pie:instruct/chat';
import type { Adapter } from './adapter.ts';
import { checkAdapter } from './adapter_check.ts';
import { Decoder } from './chat.ts';
import { kind, seed as checkSeed, whole } from './check.ts';
import { toConstraint, type Constraint, type Schema } from './constraint.ts';
import type { Context } from './context.ts';
import { ebnf, Grammar } from './grammar.ts';
import { parseJson } from './json.ts';
import { checkOptions, type GenerateOptions } from './options.ts';
import { SlotHandle, type ProbeHandle } from './output.ts';
import { toZoSeed, type Seed } from './pass.ts';
import { checkProbe, type Probe } from './probe.ts';
import { checkSampler, type Sampler } from './sampler.ts';
import { shapeOf, type Shape, type Shaped } from './shape.ts';
import { checkSpeculator } from './speculation.ts';
import type { GenStep } from './step.ts';
import { StepLoop } from './step_loop.ts';
import { Thoughts } from './thoughts.ts';
import { TokenList, toU32, type Tokens } from './tokens.ts';

export type { GenerateOptions };

const NO_TOKENS = new Uint32Array();

/** Made by `ctx.generate()`; driven by a collector or `for await (const step of g)`. */
export class Generator implements AsyncIterable<GenStep> {
  readonly #context: Context;
  readonly #loop: StepLoop;
  #thinksFirst = false;

  /** @internal Use `ctx.generate()`. */
  constructor(context: Context, sampler: Sampler, options: GenerateOptions) {
    checkOptions(options);
    if (options.speculator && options.systemSpeculation) {
      throw new Error('speculator and systemSpeculation exclude each other: choose one');
    }
    checkSampler(sampler);
    if (!sampler.chooses) {
      throw new TypeError(`Sampler.${sampler.raw.tag}() chooses no token; use it with ctx.forward()`);
    }
    this.#context = context;
    const speculator = options.speculator && checkSpeculator(options.speculator);
    const loop = new StepLoop(context, sampler, speculator, options.systemSpeculation ?? false);
    this.#loop = loop;
    loop.limit = optional('maxTokens', options.maxTokens);
    loop.adapter = options.adapter && checkAdapter(options.adapter);
    loop.zoSeed = options.zoSeed === undefined ? undefined : toZoSeed(options.zoSeed);
    loop.seed = options.seed === undefined ? undefined : checkSeed('seed', options.seed);
    loop.horizon = optional('horizon', options.horizon);
    const constraints = options.constrain ?? [];
    for (const given of isList(constraints) ? constraints : [constraints]) this.constrain(given);
    if (options.logitMask) {
      loop.constraints.fixed = toU32(options.logitMask, 'logitMask');
      loop.isPlain = false;
    }
    if (options.adapter) loop.isPlain = false;

    if (options.autoFlush ?? true) context.openTurn();
    loop.stops = new Set(rawChat.stopTokens(context.model.raw));
    if (options.stop) for (const token of toU32(options.stop, 'stop')) loop.stops.add(token);
  }

  // ── builders ────────────────────────────────────────────────────────────────────────────────────

  /** Ends the generation after `n` accepted tokens. */
  maxTokens(n: number): this {
    this.#loop.limit = whole('n', n);
    this.#loop.expectsAnew = true;
    return this;
  }

  /** Replaces the stop ids, the model's own included: `stop([])` goes on past the end of a turn. */
  stop(tokens: Tokens): this {
    this.#loop.stops = new Set(toU32(tokens));
    return this;
  }

  /** Adds to the stop ids. */
  addStop(tokens: Tokens): this {
    for (const token of toU32(tokens)) this.#loop.stops.add(token);
    return this;
  }

  /** Restricts the choice at every step. Several constraints hold together. */
  constrain(constraint: Schema | Constraint): this {
    this.#loop.constraints.add(toConstraint(constraint, this.#context.model));
    this.#loop.isPlain = false;
    return this;
  }

  /**
   * Lets a model that reasons think before the document of `collectJson`. A model whose turn begins with its
   * thoughts always does.
   */
  thinkFirst(): this {
    this.#thinksFirst = true;
    return this;
  }

  /** How many tokens are expected, for bids. */
  horizon(n: number): this {
    this.#loop.horizon = whole('n', n);
    this.#loop.expectsAnew = true;
    return this;
  }

  /** Applies an adapter to every pass. */
  adapter(adapter: Adapter): this {
    this.#loop.adapter = checkAdapter(adapter);
    this.#loop.isPlain = false;
    return this;
  }

  /** Perturbs the adapter in every pass: a whole number of 64 bits, as a number or a bigint. */
  zoSeed(seed: Seed): this {
    this.#loop.zoSeed = toZoSeed(seed, 'seed');
    return this;
  }

  /** Makes the random choices reproducible: step i draws from `seed + i`. */
  seed(seed: Seed): this {
    this.#loop.seed = checkSeed('seed', seed);
    this.#context.stepOwner = undefined;
    return this;
  }

  /** Reads a probe in every step; index 0 is the row that the step samples. */
  probeEachStep(idx: number, probe: Probe): ProbeHandle {
    const handle = new SlotHandle(1);
    this.#loop.everyStep.push({ row: whole('idx', idx), probe: checkProbe(probe), handle });
    this.#loop.isPlain = false;
    return handle;
  }

  // ── inspection ──────────────────────────────────────────────────────────────────────────────────

  /** Tokens accepted so far. */
  get tokensGenerated(): number {
    return this.#loop.generated;
  }

  /** Whether the generation has ended: at a stop token, at the limit, or by a constraint. */
  get isDone(): boolean {
    return this.#loop.done;
  }

  // ── collectors ──────────────────────────────────────────────────────────────────────────────────

  /** Runs to the end and gives all accepted tokens. */
  async collectTokens(): Promise<Uint32Array> {
    using batches = this.#loop.batches(NO_TOKENS);
    const tokens = new TokenList();
    for (let more = await batches.next(); more; more = await batches.next()) tokens.push(more);
    return tokens.toArray();
  }

  /** Runs to the end and gives the text as the chat decoder shows it. */
  async collectText(): Promise<string> {
    const model = this.#context.model;
    using decoder = new Decoder(model);
    using batches = this.#loop.batches(rawChat.stopTokens(model.raw));
    let text = '';
    for (let tokens = await batches.next(); tokens; tokens = await batches.next()) {
      let event = decoder.feed(tokens);
      // The text around a control token comes with the next call.
      if (event.type === 'interrupt') event = decoder.feed(NO_TOKENS);
      if (event.type === 'delta') text += event.text;
      if (event.type === 'done') {
        this.#loop.done = true;
        return event.text;
      }
    }
    return text;
  }

  /**
   * Runs until a JSON document is complete, and gives its value. `schema` is a JSON Schema (its text, or the
   * object), or a schema object like zod's, which also parses the value; without it, any JSON. `parse` is
   * given the value. A model that reasons may think before it: see `thinkFirst`.
   */
  async collectJson<T = unknown>(
    options: { schema?: string | object | Shaped<T>; parse?: (value: unknown) => T } = {},
  ): Promise<T> {
    if (options.parse !== undefined && typeof options.parse !== 'function') {
      throw new TypeError(`parse must be a function of the value, not ${kind(options.parse)}`);
    }
    const shape = shapeOf<T>(options.schema);
    const text = await this.#collectDocument(shape);
    let value: unknown;
    try {
      value = parseJson(text);
    } catch (error) {
      // The engine that parses it may have too little stack, which is no SyntaxError.
      throw new Error(
        error instanceof SyntaxError
          ? `the JSON document is not complete after ${this.#loop.generated} tokens: ${error} in ${text}`
          : `the JSON document of ${this.#loop.generated} tokens cannot be read: ${error}`,
      );
    }
    return (options.parse ?? shape.parse)(value);
  }

  /** The text of a document; thoughts may come before it, and are no part of it. */
  async #collectDocument<T>({ schema, source }: Shape<T>): Promise<string> {
    const model = this.#context.model;
    const thoughts = source === undefined ? undefined : Thoughts.of(model);
    if (source === undefined || !thoughts || !(thoughts.begun || this.#thinksFirst)) {
      this.constrain(schema);
      return model.tokenizer().decode(await this.collectTokens(), { skipSpecialTokens: true });
    }
    Grammar.fromJsonSchema(source)[Symbol.dispose](); // names the fault in the document
    this.constrain(ebnf(thoughts.grammar(source)));
    return thoughts.document(model, await this.collectTokens());
  }

  // ── step by step ────────────────────────────────────────────────────────────────────────────────

  /** The steps of the generation: `for await (const step of g)`. */
  [Symbol.asyncIterator](): AsyncIterator<GenStep> {
    return { next: this.#loop.nextResult };
  }

  /** The next step, for a loop of your own: `const { value: step, done } = await g.next();` */
  next(): Promise<IteratorResult<GenStep, undefined>> {
    return this.#loop.nextResult();
  }

  /**
   * Continues with these tokens: in place of what the step's own sampler chose or, after
   * `step.clearSampler()`, as the step's tokens. Further calls in the same step add to them. Gives
   * those that stop ids and the limit leave.
   */
  accept(tokens: Tokens): Uint32Array {
    return this.#loop.accept(tokens);
  }
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}

function optional(name: string, value: number | undefined): number | undefined {
  return value === undefined ? undefined : whole(name, value);
}
