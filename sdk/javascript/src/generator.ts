/** The generation loop: buffer → pass → choose → cut → accept, until done. */
import * as rawChat from 'pie:instruct/chat';
import { expect } from 'pie:plus/bidding';
import type { Adapter } from './adapter.ts';
import { checkAdapter } from './adapter_check.ts';
import { Chained, type Batches } from './chain.ts';
import { kind, seed as checkSeed, whole } from './check.ts';
import { Decoder } from './chat.ts';
import { toConstraint, type Constraint, type Schema } from './constraint.ts';
import { Constraints } from './constraints.ts';
import type { Context } from './context.ts';
import { ebnf, Grammar } from './grammar.ts';
import { parseJson } from './json.ts';
import { Output, SlotHandle, tokensIn, type ProbeHandle } from './output.ts';
import { checkOptions, type GenerateOptions } from './options.ts';
import { Requests, runPass, toZoSeed, type PassPlan, type Seed } from './pass.ts';
import { checkProbe, type Probe } from './probe.ts';
import { mayBlock } from './reactor.ts';
import { checkSampler, type Sampler } from './sampler.ts';
import { shapeOf, type Shape, type Shaped } from './shape.ts';
import {
  checkSpeculator,
  draftsFrom,
  draftsKept,
  NO_DRAFTS,
  type Drafts,
  type Speculator,
} from './speculation.ts';
import { GenStep, type StepProbe } from './step.ts';
import { Thoughts } from './thoughts.ts';
import { positionsFrom, TokenList, toU32, type Tokens } from './tokens.ts';

export type { GenerateOptions };

const NO_TOKENS = new Uint32Array();

/** The tokens that a step accepted by itself, and where they are: `accept` may take them back. */
interface OwnChoice {
  readonly tokens: number;
  /** Of them, at the front of the context's buffer. */
  readonly buffered: number;
  /** Drafts among them, in its working pages. */
  readonly cached: number;
  readonly seqLen: number;
}

/** Made by `ctx.generate()`; driven by a collector or `for await (const step of g)`. */
export class Generator implements AsyncIterable<GenStep> {
  readonly #context: Context;
  readonly #sampler: Sampler;
  readonly #speculator: Speculator | undefined;
  readonly #systemSpeculation: boolean;
  readonly #constraints = new Constraints();
  readonly #everyStep: StepProbe[] = [];
  /** Whether a step has only its sampler, and no probe. */
  #isPlain = true;
  #stops: Set<number>;
  #limit: number | undefined;
  #adapter: Adapter | undefined;
  #zoSeed: Seed | undefined;
  #seed: Seed | undefined;
  #horizon: number | undefined;

  #generated = 0;
  #steps = 0;
  #done = false;
  /** Whether the generation ended at a stop id, not at the limit. */
  #stopped = false;
  #openStep = false;
  #thinksFirst = false;
  /** Whether the engine does not know how many passes are still to come. */
  #expectsAnew = true;
  /** Accepted, and not yet told to the constraints and the speculator. */
  readonly #untold = new TokenList();
  #ownChoice: OwnChoice | undefined;
  /** The engine's own drafts for the next step. */
  #engineDrafts: readonly [Uint32Array, Uint32Array] = [NO_TOKENS, NO_TOKENS];
  /** Whether the speculator was told of the end. */
  #wasReset = false;

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
    this.#sampler = sampler;
    this.#speculator = options.speculator && checkSpeculator(options.speculator);
    this.#systemSpeculation = options.systemSpeculation ?? false;
    if (this.#speculator || this.#systemSpeculation) this.#isPlain = false;
    this.#limit = optional('maxTokens', options.maxTokens);
    this.#adapter = options.adapter && checkAdapter(options.adapter);
    this.#zoSeed = options.zoSeed === undefined ? undefined : toZoSeed(options.zoSeed);
    this.#seed = options.seed === undefined ? undefined : checkSeed('seed', options.seed);
    this.#horizon = optional('horizon', options.horizon);
    const constraints = options.constrain ?? [];
    for (const given of isList(constraints) ? constraints : [constraints]) this.constrain(given);
    if (options.logitMask) {
      this.#constraints.fixed = toU32(options.logitMask, 'logitMask');
      this.#isPlain = false;
    }
    if (options.adapter) this.#isPlain = false;

    if (options.autoFlush ?? true) context.openTurn();
    this.#stops = new Set(rawChat.stopTokens(context.model.raw));
    if (options.stop) for (const token of toU32(options.stop, 'stop')) this.#stops.add(token);
  }

  // ── builders ────────────────────────────────────────────────────────────────────────────────────

  /** Ends the generation after `n` accepted tokens. */
  maxTokens(n: number): this {
    this.#limit = whole('n', n);
    this.#expectsAnew = true;
    return this;
  }

  /** Replaces the stop ids, the model's own included: `stop([])` goes on past the end of a turn. */
  stop(tokens: Tokens): this {
    this.#stops = new Set(toU32(tokens));
    return this;
  }

  /** Adds to the stop ids. */
  addStop(tokens: Tokens): this {
    for (const token of toU32(tokens)) this.#stops.add(token);
    return this;
  }

  /** Restricts the choice at every step. Several constraints hold together. */
  constrain(constraint: Schema | Constraint): this {
    this.#constraints.add(toConstraint(constraint, this.#context.model));
    this.#isPlain = false;
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
    this.#horizon = whole('n', n);
    this.#expectsAnew = true;
    return this;
  }

  /** Applies an adapter to every pass. */
  adapter(adapter: Adapter): this {
    this.#adapter = checkAdapter(adapter);
    this.#isPlain = false;
    return this;
  }

  /** Perturbs the adapter in every pass: a whole number of 64 bits, as a number or a bigint. */
  zoSeed(seed: Seed): this {
    this.#zoSeed = toZoSeed(seed, 'seed');
    return this;
  }

  /** Makes the random choices reproducible: step i draws from `seed + i`. */
  seed(seed: Seed): this {
    this.#seed = checkSeed('seed', seed);
    this.#context.stepOwner = undefined;
    return this;
  }

  /** Reads a probe in every step; index 0 is the row that the step samples. */
  probeEachStep(idx: number, probe: Probe): ProbeHandle {
    const handle = new SlotHandle(1);
    this.#everyStep.push({ row: whole('idx', idx), probe: checkProbe(probe), handle });
    this.#isPlain = false;
    return handle;
  }

  // ── inspection ──────────────────────────────────────────────────────────────────────────────────

  /** Tokens accepted so far. */
  get tokensGenerated(): number {
    return this.#generated;
  }

  /** Whether the generation has ended: at a stop token, at the limit, or by a constraint. */
  get isDone(): boolean {
    return this.#done;
  }

  // ── collectors ──────────────────────────────────────────────────────────────────────────────────

  /** Runs to the end and gives all accepted tokens. */
  async collectTokens(): Promise<Uint32Array> {
    using batches = this.#batches(NO_TOKENS);
    const tokens = new TokenList();
    for (let more = await batches.next(); more; more = await batches.next()) tokens.push(more);
    return tokens.toArray();
  }

  /** Runs to the end and gives the text as the chat decoder shows it. */
  async collectText(): Promise<string> {
    const model = this.#context.model;
    using decoder = new Decoder(model);
    using batches = this.#batches(rawChat.stopTokens(model.raw));
    let text = '';
    for (let tokens = await batches.next(); tokens; tokens = await batches.next()) {
      let event = decoder.feed(tokens);
      // The text around a control token comes with the next call.
      if (event.type === 'interrupt') event = decoder.feed(NO_TOKENS);
      if (event.type === 'delta') text += event.text;
      if (event.type === 'done') {
        this.#done = true;
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
          ? `the JSON document is not complete after ${this.#generated} tokens: ${error} in ${text}`
          : `the JSON document of ${this.#generated} tokens cannot be read: ${error}`,
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
    return { next: this.#nextResult };
  }

  /** The next step, for a loop of your own: `const { value: step, done } = await g.next();` */
  next(): Promise<IteratorResult<GenStep, undefined>> {
    return this.#nextResult();
  }

  // This is not an async generator, because that awaits three promises a step where this awaits one.
  readonly #nextResult = (): Promise<IteratorResult<GenStep, undefined>> => {
    try {
      const step = this.#next();
      return Promise.resolve(step ? { value: step, done: false } : { value: undefined, done: true });
    } catch (error) {
      return Promise.reject(error);
    }
  };

  /**
   * Continues with these tokens: in place of what the step's own sampler chose or, after
   * `step.clearSampler()`, as the step's tokens. Further calls in the same step add to them. Gives
   * those that stop ids and the limit leave.
   */
  accept(tokens: Tokens): Uint32Array {
    const inItsPlace = this.#takeBack();
    if (this.#done) return NO_TOKENS;
    const accepted = this.#register(toU32(tokens));
    if (inItsPlace) this.#context.pending.unshift(accepted);
    else this.#context.pending.push(accepted);
    return accepted;
  }

  /**
   * Undoes what the step accepted by itself. Does nothing if there is nothing to undo, or if the
   * program has computed it (`ctx.flush()`).
   */
  #takeBack(): boolean {
    const own = this.#ownChoice;
    this.#ownChoice = undefined;
    const context = this.#context;
    if (!own || own.seqLen !== context.seqLen) return false;
    context.pending.drop(own.buffered);
    context.pages.truncate(own.cached);
    this.#untold.shorten(own.tokens);
    this.#generated -= own.tokens;
    this.#done = false;
    return true;
  }

  /**
   * The next step, if there is one. What was accepted is final now: constraints and speculator learn
   * of it.
   */
  #next(engineMatches = this.#engineMatches): GenStep | undefined {
    if (this.#openStep) throw new Error('the last step was not executed: await step.execute()');
    this.#ownChoice = undefined;
    if (this.#limit !== undefined && this.#generated >= this.#limit) this.#done = true;
    if (this.#isPlain) {
      this.#untold.become(undefined);
      if (this.#done) return undefined;
      this.#openStep = true;
      return new GenStep(this.#runStep);
    }
    const accepted = this.#untold.take();
    if (!this.#done) {
      this.#done = this.#constraints.advance(accepted, engineMatches, this.#generated);
    }
    if (this.#speculator) this.#tellSpeculator(this.#speculator, accepted);
    if (this.#done) return undefined;
    this.#openStep = true;
    return new GenStep(this.#runStep);
  }

  readonly #runStep = (probes: readonly StepProbe[], sample: boolean): Promise<Output> => {
    const context = this.#context;
    const token = context.pending.only;
    if (
      context.stepOwner !== this ||
      token === undefined ||
      !sample ||
      probes.length > 0 ||
      this.#expectsAnew ||
      !this.#isPlain ||
      !mayBlock(context)
    ) {
      return this.#run(probes, sample);
    }
    try {
      return Promise.resolve(this.#repeat(token));
    } catch (error) {
      return Promise.reject(error);
    }
  };

  /** Does what `#run` does for a plain step like the last one, in place, without waiting for a turn of the loop. */
  #repeat(token: number): Output {
    this.#openStep = false;
    const context = this.#context;
    const chosen = context.pages.repeatStep(token);
    this.#steps++;
    const isStop = this.#stops.has(chosen);
    const accepted = isStop ? undefined : chosen;
    const tokens = isStop ? 0 : 1;
    context.pending.become(accepted);
    this.#untold.become(accepted);
    this.#generated += tokens;
    this.#stopped = isStop;
    if (isStop || this.#generated === this.#limit) this.#done = true;
    this.#ownChoice = { tokens, buffered: tokens, cached: 0, seqLen: context.pages.length };
    return Output.ofToken(chosen, !isStop);
  }

  #tellSpeculator(speculator: Speculator, accepted: Uint32Array): void {
    if (accepted.length > 0) speculator.accept(accepted);
    if (!this.#done || this.#wasReset) return;
    this.#wasReset = true;
    speculator.reset();
  }

  /**
   * Whether the engine applies the constraints to the steps. It does where tokens are drafted, because a mask
   * holds for one position only.
   */
  get #engineMatches(): boolean {
    if (!this.#speculator && !this.#systemSpeculation) return false;
    return this.#constraints.areMatchers;
  }

  async #run(ownProbes: readonly StepProbe[], sample: boolean): Promise<Output> {
    this.#openStep = false;
    const context = this.#context;
    const pending = this.#pending();
    // The row whose choice continues the sequence. Without input, it is the last position.
    const sampledRow = Math.max(0, pending.length - 1);
    // Probes of the sampled row read the drafts too; one of another row cannot.
    const probes = [...this.#everyStep, ...ownProbes];
    const mayDraft = sample && pending.length > 0 && probes.every(({ row }) => row === 0);
    const drafts = mayDraft ? this.#drafts(context.seqLen + pending.length) : NO_DRAFTS;

    const requests = new Requests();
    const auto = sample
      ? requests.sample(positionsFrom(sampledRow, 1), this.#sampler)
      : undefined;
    for (const { row, probe, handle } of probes) {
      requests.probe(sampledRow + row, probe, handle);
    }

    this.#expect();
    const plan = this.#plan(pending, requests);
    const raw = await runPass(
      context,
      this.#engineMatches ? { ...plan, drafts, matchers: this.#constraints.matchers } : plan,
    );
    const kept = drafts.drafted > 0 ? requests.draftsKept(raw) : 0;
    requests.widen(kept);
    this.#steps += kept + 1; // each chosen token counts as one step
    context.pending.drop(pending.length);
    if (this.#systemSpeculation) this.#engineDrafts = [raw.specTokens, raw.specPositions];

    let accepted: Uint32Array = NO_TOKENS;
    if (auto) {
      const chosen = tokensIn(raw.slots, 0, auto.count);
      accepted = this.#settle(drafts, kept, everyNth(chosen, this.#sampler.draws));
    }
    context.pages.commitFull(this.#ownChoice?.cached);
    if (accepted.length > 1) this.#expectsAnew = true; // the engine counts passes, not tokens
    return Output.of(raw, requests.layout, accepted, auto, kept + 1);
  }

  /** Whether nothing has to be decided here between two tokens. The engine follows matchers by itself. */
  get #isChainable(): boolean {
    return this.#constraints.areMatchers && this.#everyStep.length === 0 && !this.#speculator;
  }

  /** Starts the loop. A chained one also ends at the tokens `ends`, which it accepts. */
  #batches(ends: Uint32Array): Batches {
    if (!this.#isChainable || !this.#next(true)) return this.#stepped();
    this.#openStep = false;
    const context = this.#context;
    const pending = this.#pending();
    const requests = new Requests();
    requests.sample(positionsFrom(Math.max(0, pending.length - 1), 1), this.#sampler);
    this.#expect();
    let held = pending.length; // tokens at the front of the buffer that the engine has
    const matchers = this.#constraints.matchers;
    const chained = Chained.start(context, { ...this.#plan(pending, requests), matchers }, {
      limit: (this.#limit ?? Infinity) - this.#generated,
      stops: toU32([...this.#stops, ...ends]),
      accept: (chosen) => {
        this.#steps += chosen.length;
        const accepted = this.#register(chosen);
        this.#untold.take(); // the matchers have followed what was taken
        const waiting = accepted.subarray(chosen.length - 1); // the last one, if it was accepted
        context.pending.drop(held);
        context.pending.unshift(waiting);
        held = waiting.length;
        return accepted;
      },
      complete: () => {
        this.#done = true;
      },
    });
    return chained ?? this.#stepped();
  }

  /** Batches of one step each. */
  #stepped(): Batches {
    return {
      next: async () => {
        const step = this.#next();
        return step && (await step.execute()).tokens;
      },
      [Symbol.dispose]: () => {},
    };
  }

  /** The tokens that the next pass computes. */
  #pending(): Uint32Array {
    this.#context.checkIdle();
    this.#context.turns.settle();
    const pending = this.#context.buffer();
    // A generation may begin after what was flushed: it samples the last position.
    if (pending.length > 0 || (this.#steps === 0 && this.#context.seqLen > 0)) return pending;
    throw new Error(
      'empty input: nothing to generate from. Fill the context (ctx.user, ctx.append, ctx.cue), ' +
        'or accept() a token after clearSampler()',
    );
  }

  #plan(tokens: Uint32Array, requests: Requests): PassPlan {
    return {
      tokens,
      positions: positionsFrom(this.#context.seqLen, tokens.length),
      requests,
      logitMask: this.#constraints.mask,
      adapter: this.#adapter,
      seed: this.#seed === undefined ? undefined : BigInt(this.#seed) + BigInt(this.#steps),
      zoSeed: this.#zoSeed,
      wantsDrafts: this.#systemSpeculation,
      owner: this,
      call: 'step.execute()',
    };
  }

  /** Accepts what the model chose: `inCache` drafts, which are in the cache, and a token after them. */
  #settle(drafts: Drafts, inCache: number, chosen: Uint32Array): Uint32Array {
    const accepted = this.#register(chosen);
    const kept = draftsKept(inCache, accepted.length, this.#stopped);
    const context = this.#context;
    context.pages.truncate(inCache - kept);
    context.pending.unshift(accepted.subarray(kept));
    this.#ownChoice = {
      tokens: accepted.length,
      buffered: accepted.length - kept,
      cached: kept,
      seqLen: context.seqLen,
    };
    const right = Math.min(inCache, accepted.length);
    if (right < drafts.drafted) this.#speculator?.rollback(drafts.drafted - right);
    return accepted;
  }

  /** Cuts at the first stop id, which is not part of the text, then at the limit. */
  #register(tokens: Uint32Array): Uint32Array {
    let stop = 0;
    while (stop < tokens.length && !this.#stops.has(tokens[stop]!)) stop++;
    const stopFound = stop < tokens.length;
    const room = (this.#limit ?? Infinity) - this.#generated;
    const accepted = tokens.subarray(0, Math.min(stop, Math.max(0, room)));
    this.#stopped = stopFound && stop < room;
    if (stopFound || accepted.length >= room) this.#done = true;
    this.#generated += accepted.length;
    this.#untold.push(accepted);
    return accepted;
  }

  /**
   * The tokens to verify in this step. There are none beside a constraint of the program's own, whose mask
   * holds for one position.
   */
  #drafts(position: number): Drafts {
    if (!this.#engineMatches || this.#sampler.draws > 1) return NO_DRAFTS;
    const room = (this.#limit ?? Infinity) - this.#generated - 1;
    if (room < 1) return NO_DRAFTS;
    const given = this.#speculator ? this.#speculator.draft() : this.#engineDrafts;
    return draftsFrom(given, position, room);
  }

  /** Tells the engine how many passes are still to come, from which it bids. It counts them down itself. */
  #expect(): void {
    if (!this.#expectsAnew) return;
    this.#expectsAnew = false;
    const total = this.#horizon ?? this.#limit;
    const left = total === undefined ? undefined : Math.max(1, total - this.#generated);
    expect(this.#context.raw, left, this.#horizon === undefined ? 1 : 0);
  }
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}

/** The first of each row's draws. */
function everyNth(tokens: Uint32Array, n: number): Uint32Array {
  return n === 1 ? tokens : tokens.filter((_, index) => index % n === 0);
}

function optional(name: string, value: number | undefined): number | undefined {
  return value === undefined ? undefined : whole(name, value);
}
