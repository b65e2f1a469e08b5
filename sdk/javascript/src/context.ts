/** A token sequence with its KV cache, and the buffer of tokens that have not been computed yet. */
import { Context as RawContext } from 'pie:core/context';
import * as rawChat from 'pie:instruct/chat';
import * as bidding from 'pie:plus/bidding';
import { cachedTokens } from 'pie:plus/caching';
import { truncateWorkingPageTokens } from 'pie:plus/fallible';
import type { Turn } from 'pie:plus/turns';
import * as check from './check.ts';
import { describe } from './failure.ts';
import { Forward } from './forward.ts';
import { Generator, type GenerateOptions } from './generator.ts';
import { RawContext as Inner } from './inner.ts';
import { rawOf, type Model } from './model.ts';
import { Pages } from './pages.ts';
import { computeNow, runPass } from './pass.ts';
import type { Sampler } from './sampler.ts';
import { positionsFrom, TokenList, toU32, type Tokens } from './tokens.ts';
import { checkCall, encode, encodeCalls, encodeSchemas } from './json.ts';
import type { Call, ToolSchema } from './tools.ts';
import { forget, remember } from './forgotten.ts';
import { turn, Turns } from './turns.ts';

/** A token sequence with its KV cache, and a buffer of tokens that are still to be computed. */
export class Context implements Disposable {
  /** The model that it belongs to. */
  readonly model: Model;
  /** @internal */ readonly pages: Pages;
  /** @internal Tokens that wait for the next pass. */ readonly pending = new TokenList();
  /** @internal The chat turns. */ readonly turns: Turns;
  /** @internal The generator that may repeat the last pass (`Pages.repeatStep`); undefined: none. */
  stepOwner: object | undefined;
  /** @internal The call whose pass is running; undefined: none. */
  running: string | undefined;
  #raw: RawContext | undefined;
  /** The length at which `cue` opened the model's turn. */
  #cuedAt: number | undefined;
  /** Scopes of `idle` that are open. */
  #idle = 0;

  /** A fresh, anonymous context. */
  constructor(model: Model);
  /** @internal */
  constructor(model: Model, raw: RawContext, turns: Turns);
  constructor(model: Model, raw = RawContext.create(rawOf(model)), turns = new Turns()) {
    this.model = model;
    this.turns = turns;
    this.#raw = raw;
    this.pages = new Pages(raw);
    remember(this, raw);
  }

  // ── snapshots and clones ────────────────────────────────────────────────────────────────────────

  /** A copy of a saved snapshot; undefined if the name is absent. Throws if it cannot be read. */
  static open(model: Model, name: string): Context | undefined {
    return fromSnapshot(model, () => RawContext.open(rawOf(model), check.text('name', name)));
  }

  /** Does the same as `open` and deletes the snapshot. */
  static take(model: Model, name: string): Context | undefined {
    return fromSnapshot(model, () => RawContext.take(rawOf(model), check.text('name', name)));
  }

  /** Drops a saved snapshot. */
  static delete(model: Model, name: string): void {
    RawContext.delete(rawOf(model), check.text('name', name));
  }

  /** A copy-on-write clone, with the buffered tokens too. */
  fork(): Context {
    this.checkIdle();
    const clone = new Context(this.model, this.raw.fork(), this.turns.copy());
    clone.pending.push(this.buffer());
    clone.#cuedAt = this.#cuedAt;
    return clone;
  }

  /** Saves all tokens, buffered ones too, under a name. A snapshot of that name is replaced. */
  save(name: string): void {
    this.#whole((raw) => raw.save(check.text('name', name)));
  }

  /** Saves all tokens under a fresh name, and returns the name. */
  snapshot(): string {
    return this.#whole((raw) => raw.snapshot());
  }

  /** Calls `save` on a context that holds the buffered tokens too: a copy, if there are any. */
  #whole<T>(save: (raw: RawContext) => T): T {
    this.checkIdle();
    if (this.pending.length === 0) return save(this.raw);
    using copy = this.fork();
    const tokens = this.buffer();
    computeNow(copy, tokens, positionsFrom(this.seqLen, tokens.length));
    return save(copy.raw);
  }

  /** Gives all pages back now. Any later use is an error. */
  release(): void {
    if (!this.#raw) return;
    forget(this.#raw);
    this.#raw.destroy();
    this.#raw[Symbol.dispose]();
    this.#raw = undefined;
    this.stepOwner = undefined;
  }

  /** Gives all pages back, as `release` does. `using` calls it. */
  [Symbol.dispose](): void {
    this.release();
  }

  // ── filling ─────────────────────────────────────────────────────────────────────────────────────

  /** Buffers a system message. */
  system(text: string): this {
    return this.#say(turn('system', check.text('text', text)));
  }

  /** Buffers a turn of the user. */
  user(text: string): this {
    return this.#say(turn('user', check.text('text', text)));
  }

  /** Buffers a finished turn of the model. */
  assistant(text: string): this {
    return this.#say(turn('assistant', check.text('text', text)));
  }

  /**
   * Buffers a finished turn of the model that called tools, written as the model's template writes calls. `text` is
   * what the model said before the calls; it may be empty. Give the answers next, with `answerCall`.
   */
  assistantCalls(text: string, calls: Iterable<Call>): this {
    return this.#say(turn('assistant', check.text('text', text), '', encodeCalls(calls)));
  }

  /** Opens the model's own turn. */
  cue(): this {
    this.#say(turn('cue'));
    this.#cuedAt = this.seqLen + this.pending.length;
    return this;
  }

  /** @internal Opens the model's turn, unless `cue` has just done so. */
  openTurn(): void {
    if (this.#cuedAt !== this.seqLen + this.pending.length) this.cue();
  }

  /** @internal Called when computed tokens are dropped. */
  truncated(): void {
    this.turns.settle();
    this.#cuedAt = undefined;
  }

  /** Tells the model which tools it has. */
  equipTools(schemas: Iterable<ToolSchema>): this {
    return this.#say(turn('tools', '', '', encodeSchemas(schemas)));
  }

  /** Gives a tool's answer back. What is not a string is sent as JSON. */
  answerTool(name: string, value: unknown): this {
    return this.#say(turn('answer', encode(value), check.text('name', name)));
  }

  /**
   * Gives a tool's answer to one of several calls back: templates that write the ids of calls write the id of this
   * one. What is not a string is sent as JSON.
   */
  answerCall(call: Call, value: unknown): this {
    const { name, id } = checkCall('call', call);
    return this.#say(turn('answer', encode(value), name, id ? [id] : []));
  }

  #say(said: Turn): this {
    this.#checkLive();
    this.turns.add(this.model, this.pending, said);
    this.#cuedAt = undefined;
    this.stepOwner = undefined; // the next pass settles the turn
    return this;
  }

  /** Closes the model's turn. */
  seal(): this {
    this.#checkLive();
    this.turns.seal();
    this.pending.push(rawChat.seal(this.model.raw));
    return this;
  }

  /** Buffers tokens as they are. */
  append(tokens: Tokens): this {
    this.#checkLive();
    this.turns.settle();
    this.pending.push(toU32(tokens));
    return this;
  }

  /** Buffers plain text, outside any chat turn. */
  appendText(text: string): this {
    return this.append(this.model.tokenizer().encode(text));
  }

  /** Computes the buffered tokens and commits the pages that they fill. */
  async flush(): Promise<void> {
    this.checkIdle();
    this.turns.settle();
    if (this.pending.length === 0) return;
    const tokens = this.buffer();
    await runPass(this, { tokens, positions: positionsFrom(this.seqLen, tokens.length), call: 'ctx.flush()' });
    this.pending.drop(tokens.length);
    this.pages.commitFull();
  }

  // ── inspection ──────────────────────────────────────────────────────────────────────────────────

  /** The number of tokens in a KV page. */
  get pageSize(): number {
    this.#checkLive();
    return this.pages.size;
  }

  /** Computed tokens, without the buffered ones. */
  get seqLen(): number {
    this.#checkLive();
    return this.pages.length;
  }

  /**
   * How many of the tokens that were flushed or given to a generation were found in the engine's prefix cache, and not
   * computed. A fork begins with 0.
   */
  get cachedTokens(): number {
    return Number(cachedTokens(this.raw));
  }

  /** The tokens that have not been computed yet. */
  buffer(): Uint32Array {
    this.#checkLive();
    return this.pending.toArray();
  }

  /** Drops the last `n` computed tokens. Throws when there are fewer. */
  truncate(n: number): void {
    check.whole('n', n);
    this.checkIdle();
    const held = this.seqLen;
    if (n > held) throw new RangeError(`n must be at most ${held}, the tokens that the context holds, not ${n}`);
    this.truncated();
    truncateWorkingPageTokens(this.raw, n);
    this.pages.resync();
  }

  /** The pages of this context, for passes and rollbacks of your own. */
  inner(): Inner {
    this.#checkLive();
    return new Inner(this);
  }

  // ── running ─────────────────────────────────────────────────────────────────────────────────────

  /** A generation of tokens from here on. It opens the model's turn unless `autoFlush` is false. */
  generate(sampler: Sampler, options: GenerateOptions = {}): Generator {
    this.#checkLive();
    return new Generator(this, sampler, options);
  }

  /** A single pass, put together by hand. */
  forward(): Forward {
    this.#checkLive();
    return new Forward(this);
  }

  // ── the market for pages ────────────────────────────────────────────────────────────────────────

  /** Bids `value` credits per page in the next pass. Passes after it bid as before. */
  setBid(value: number): void {
    bidding.once(this.raw, check.number('value', value));
  }

  /** Bids nothing until the returned scope ends, then as before: `using _ = ctx.idle();` */
  idle(): Disposable {
    const raw = this.raw;
    if (this.#idle === 0) bidding.idle(raw, true);
    this.#idle++;
    let over = false;
    return {
      [Symbol.dispose]: () => {
        if (over) return;
        over = true;
        this.#idle--;
        if (this.#idle === 0 && this.#raw) bidding.idle(this.#raw, false);
      },
    };
  }

  /** @internal */
  get released(): boolean {
    return this.#raw === undefined;
  }

  /** @internal */
  get raw(): RawContext {
    this.#checkLive();
    return this.#raw!;
  }

  /** @internal Throws if the context was released, or while one of its passes is running. */
  checkIdle(): void {
    this.#checkLive();
    if (this.running === undefined) return;
    throw new Error(
      `${this.running} is still running on this context, which runs one pass at a time: write \`await ${this.running}\``,
    );
  }

  #checkLive(): void {
    if (!this.#raw) throw new Error('this context was released');
  }
}

/** How the engine's error for an absent name begins. */
const ABSENT = 'no snapshot is named ';

/** The engine answers an absent name with an error, this SDK with undefined. */
function fromSnapshot(model: Model, take: () => RawContext): Context | undefined {
  let raw: RawContext;
  try {
    raw = take();
  } catch (error) {
    if (describe(error).message.startsWith(ABSENT)) return undefined;
    throw error;
  }
  return new Context(model, raw, Turns.inTheMiddle());
}
