/** The generation loop itself: buffer → pass → choose → cut → accept, until done. */
import { expect } from 'pie:plus/bidding';
import type { Adapter } from './adapter.ts';
import { Chained, type Batches } from './chain.ts';
import { Constraints } from './constraints.ts';
import type { Context } from './context.ts';
import { Output, tokensIn } from './output.ts';
import { Requests, runPass, type PassPlan, type Seed } from './pass.ts';
import { mayBlock } from './reactor.ts';
import type { Sampler } from './sampler.ts';
import { draftsFrom, draftsKept, NO_DRAFTS, type Drafts, type Speculator } from './speculation.ts';
import { GenStep, type StepProbe } from './step.ts';
import { positionsFrom, TokenList, toU32, type Tokens } from './tokens.ts';

const NO_TOKENS = new Uint32Array();

/** The tokens that a step accepted by itself, and where they are: `accept` may undo it. */
interface OwnChoice {
  readonly tokens: number;
  /** How many of them are at the front of the context's buffer. */
  readonly buffered: number;
  /** How many of them are drafts, which are in the context's working pages. */
  readonly cached: number;
  readonly seqLen: number;
}

/**
 * The state of one generation, and its passes. `Generator` is its public face: it sets the fields that are not
 * private, and asks for steps or batches.
 */
export class StepLoop {
  /** Ids that end the generation. */
  stops = new Set<number>();
  /** Tokens to accept at most. */
  limit: number | undefined;
  adapter: Adapter | undefined;
  zoSeed: Seed | undefined;
  seed: Seed | undefined;
  horizon: number | undefined;
  readonly constraints = new Constraints();
  /** Probes of every step. */
  readonly everyStep: StepProbe[] = [];
  /** Whether a step has only its sampler, and no probe. */
  isPlain: boolean;
  /** Whether the engine does not know how many passes are still to come. */
  expectsAnew = true;

  /** Tokens accepted so far. */
  generated = 0;
  done = false;

  readonly #context: Context;
  readonly #sampler: Sampler;
  readonly #speculator: Speculator | undefined;
  readonly #systemSpeculation: boolean;
  #steps = 0;
  /** Whether the generation ended at a stop id, not at the limit. */
  #stopped = false;
  #openStep = false;
  /** Accepted, and not yet told to the constraints and the speculator. */
  readonly #untold = new TokenList();
  #ownChoice: OwnChoice | undefined;
  /** The engine's own drafts for the next step. */
  #engineDrafts: readonly [Uint32Array, Uint32Array] = [NO_TOKENS, NO_TOKENS];
  /** Whether the speculator was told of the end. */
  #wasReset = false;

  constructor(
    context: Context,
    sampler: Sampler,
    speculator: Speculator | undefined,
    systemSpeculation: boolean,
  ) {
    this.#context = context;
    this.#sampler = sampler;
    this.#speculator = speculator;
    this.#systemSpeculation = systemSpeculation;
    this.isPlain = !speculator && !systemSpeculation;
  }

  // This is not an async generator, because that awaits three promises a step where this awaits one.
  readonly nextResult = (): Promise<IteratorResult<GenStep, undefined>> => {
    try {
      const step = this.#next();
      return Promise.resolve(step ? { value: step, done: false } : { value: undefined, done: true });
    } catch (error) {
      return Promise.reject(error);
    }
  };

  /** Continues with these tokens: see `Generator.accept`. */
  accept(tokens: Tokens): Uint32Array {
    const inItsPlace = this.#takeBack();
    if (this.done) return NO_TOKENS;
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
    this.generated -= own.tokens;
    this.done = false;
    return true;
  }

  /**
   * The next step, if there is one. What was accepted is final now: constraints and speculator learn
   * of it.
   */
  #next(engineMatches = this.#engineMatches): GenStep | undefined {
    if (this.#openStep) throw new Error('the last step was not executed: await step.execute()');
    this.#ownChoice = undefined;
    if (this.limit !== undefined && this.generated >= this.limit) this.done = true;
    if (this.isPlain) {
      this.#untold.become(undefined);
      if (this.done) return undefined;
      this.#openStep = true;
      return new GenStep(this.#runStep);
    }
    const accepted = this.#untold.take();
    if (!this.done) {
      this.done = this.constraints.advance(accepted, engineMatches, this.generated);
    }
    if (this.#speculator) this.#tellSpeculator(this.#speculator, accepted);
    if (this.done) return undefined;
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
      this.expectsAnew ||
      !this.isPlain ||
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
    const isStop = this.stops.has(chosen);
    const accepted = isStop ? undefined : chosen;
    const tokens = isStop ? 0 : 1;
    context.pending.become(accepted);
    this.#untold.become(accepted);
    this.generated += tokens;
    this.#stopped = isStop;
    if (isStop || this.generated === this.limit) this.done = true;
    this.#ownChoice = { tokens, buffered: tokens, cached: 0, seqLen: context.pages.length };
    return Output.ofToken(chosen, !isStop);
  }

  #tellSpeculator(speculator: Speculator, accepted: Uint32Array): void {
    if (accepted.length > 0) speculator.accept(accepted);
    if (!this.done || this.#wasReset) return;
    this.#wasReset = true;
    speculator.reset();
  }

  /**
   * Whether the engine applies the constraints to the steps. It does where tokens are drafted, because a mask
   * holds for one position only.
   */
  get #engineMatches(): boolean {
    if (!this.#speculator && !this.#systemSpeculation) return false;
    return this.constraints.areMatchers;
  }

  async #run(ownProbes: readonly StepProbe[], sample: boolean): Promise<Output> {
    this.#openStep = false;
    const context = this.#context;
    const pending = this.#pending();
    // The row whose choice continues the sequence. Without input, it is the last position.
    const sampledRow = Math.max(0, pending.length - 1);
    // Probes of the sampled row read the drafts too; one of another row cannot.
    const probes = [...this.everyStep, ...ownProbes];
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
      this.#engineMatches ? { ...plan, drafts, matchers: this.constraints.matchers } : plan,
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
    if (accepted.length > 1) this.expectsAnew = true; // the engine counts passes, not tokens
    return Output.of(raw, requests.layout, accepted, auto, kept + 1);
  }

  /** Whether nothing has to be decided here between two tokens. The engine follows matchers by itself. */
  get #isChainable(): boolean {
    return this.constraints.areMatchers && this.everyStep.length === 0 && !this.#speculator;
  }

  /** Starts the loop. A chained one also ends at the tokens `ends`, which it accepts. */
  batches(ends: Uint32Array): Batches {
    if (!this.#isChainable || !this.#next(true)) return this.#stepped();
    this.#openStep = false;
    const context = this.#context;
    const pending = this.#pending();
    const requests = new Requests();
    requests.sample(positionsFrom(Math.max(0, pending.length - 1), 1), this.#sampler);
    this.#expect();
    let held = pending.length; // tokens at the front of the buffer that the engine has
    const matchers = this.constraints.matchers;
    const chained = Chained.start(context, { ...this.#plan(pending, requests), matchers }, {
      limit: (this.limit ?? Infinity) - this.generated,
      stops: toU32([...this.stops, ...ends]),
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
        this.done = true;
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
      logitMask: this.constraints.mask,
      adapter: this.adapter,
      seed: this.seed === undefined ? undefined : BigInt(this.seed) + BigInt(this.#steps),
      zoSeed: this.zoSeed,
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
    while (stop < tokens.length && !this.stops.has(tokens[stop]!)) stop++;
    const stopFound = stop < tokens.length;
    const room = (this.limit ?? Infinity) - this.generated;
    const accepted = tokens.subarray(0, Math.min(stop, Math.max(0, room)));
    this.#stopped = stopFound && stop < room;
    if (stopFound || accepted.length >= room) this.done = true;
    this.generated += accepted.length;
    this.#untold.push(accepted);
    return accepted;
  }

  /**
   * The tokens to verify in this step. There are none beside a constraint of the program's own, whose mask
   * holds for one position.
   */
  #drafts(position: number): Drafts {
    if (!this.#engineMatches || this.#sampler.draws > 1) return NO_DRAFTS;
    const room = (this.limit ?? Infinity) - this.generated - 1;
    if (room < 1) return NO_DRAFTS;
    const given = this.#speculator ? this.#speculator.draft() : this.#engineDrafts;
    return draftsFrom(given, position, room);
  }

  /** Tells the engine how many passes are still to come, from which it bids. It counts them down itself. */
  #expect(): void {
    if (!this.expectsAnew) return;
    this.expectsAnew = false;
    const total = this.horizon ?? this.limit;
    const left = total === undefined ? undefined : Math.max(1, total - this.generated);
    expect(this.#context.raw, left, this.horizon === undefined ? 1 : 0);
  }
}

/** The first of each row's draws. */
function everyNth(tokens: Uint32Array, n: number): Uint32Array {
  return n === 1 ? tokens : tokens.filter((_, index) => index % n === 0);
}
