/** One forward pass, from its parts to the engine's answer. Both `Forward` and `Generator` end here. */
import type { Context as RawContext } from 'pie:core/context';
import { ForwardPass, type FutureOutput, type Output as RawOutput } from 'pie:core/inference';
import { run as runChain, type Chain } from 'pie:plus/chains';
import { constrain } from 'pie:plus/constraints';
import { failure } from 'pie:plus/outcome';
import { seed as seedPass } from 'pie:plus/sampling';
import { begin } from 'pie:plus/steps';
import { adapterSeed } from 'pie:zo/zo';
import type { Adapter } from './adapter.ts';
import type { Brle } from './brle.ts';
import { seed as checkSeed } from './check.ts';
import type { Context } from './context.ts';
import type { Matcher } from './grammar.ts';
import { SlotHandle } from './output.ts';
import type { Probe } from './probe.ts';
import { passReady } from './reactor.ts';
import type { Sampler } from './sampler.ts';
import type { Drafts } from './speculation.ts';

/** A seed: a whole number of 64 bits, as a number or a bigint. */
export type Seed = number | bigint;

/** The requests of the samplers and probes of a pass, in the order of their slots. */
export class Requests {
  readonly layout = new Map<SlotHandle, number>();
  slots = 0;
  readonly #attach: ((pass: ForwardPass) => void)[] = [];
  #sample: { readonly rows: Uint32Array; readonly sampler: Sampler } | undefined;

  sample(rows: Uint32Array, sampler: Sampler): SlotHandle {
    this.#sample = { rows, sampler };
    const handle = new SlotHandle(rows.length * sampler.draws);
    return this.#add(handle, (pass) => pass.sampler(rows, sampler.raw));
  }

  /** `handle` is given when one handle stands for the same probe in every step. */
  probe(row: number, probe: Probe, handle = new SlotHandle(1)): SlotHandle {
    const rows = new Uint32Array([row]);
    return this.#add(handle, (pass) => pass.sampler(rows, probe.raw));
  }

  /** The sampler, if it reads this row and nothing else is asked for. */
  samplerOf(row: number): Sampler | undefined {
    const sample = this.#sample;
    const isAlone = this.#attach.length === 1 && sample?.rows.length === 1 && sample.rows[0] === row;
    return isAlone ? sample.sampler : undefined;
  }

  attachTo(pass: ForwardPass): void {
    for (let i = 0; i < this.#attach.length; i++) this.#attach[i]!(pass);
  }

  /** How many drafts the engine kept: every request has a slot more for each of them. */
  draftsKept(output: RawOutput): number {
    return (output.slots.length - this.slots) / Math.max(1, this.#attach.length);
  }

  /**
   * Every request covers `count` slots more. The handle of the sampler, which is added first, has that count.
   */
  widen(count: number): void {
    if (count === 0) return;
    let before = 0;
    for (const [handle, at] of this.layout) {
      if (before === 0) handle.count += count;
      this.layout.set(handle, at + before * count);
      before++;
    }
    this.slots += before * count;
  }

  #add(handle: SlotHandle, attach: (pass: ForwardPass) => void): SlotHandle {
    this.#attach.push(attach);
    this.layout.set(handle, this.slots);
    this.slots += handle.count;
    return handle;
  }
}

export interface PassPlan {
  readonly tokens: Uint32Array;
  readonly positions: Uint32Array;
  readonly requests?: Requests;
  readonly logitMask?: Brle | undefined;
  readonly attentionMask?: readonly Brle[] | undefined;
  readonly adapter?: Adapter | undefined;
  readonly seed?: Seed | undefined;
  readonly zoSeed?: Seed | undefined;
  /** Ask the engine to draft what may come next. */
  readonly wantsDrafts?: boolean;
  /** Tokens to verify after the others. The sampler gives a slot more for each that is kept. */
  readonly drafts?: Drafts | undefined;
  /** The engine applies them to every sampler. */
  readonly matchers?: readonly Matcher[] | undefined;
  /** The repeater of the pass, if it is a plain step. */
  readonly owner?: object | undefined;
  /** The call of the program that runs it, for errors. */
  readonly call: string;
}

/**
 * Runs the pass. Afterwards the context holds all of its tokens and the drafts that were kept, with nothing
 * committed yet: the caller first truncates what must not stay. If the pass fails the context is as it was
 * before.
 */
export async function runPass(context: Context, plan: PassPlan): Promise<RawOutput> {
  context.checkIdle();
  const rawContext = context.raw;
  const pages = context.pages;
  const before = pages.length;
  // Not `using`: this is the hot path, and what that compiles to costs more than the two calls.
  const sampler = shortStep(plan, before);
  const pass = sampler ? undefined : new ForwardPass(context.model.raw);
  let future: FutureOutput | undefined;
  context.running = plan.call;
  try {
    pages.reserve(plan.tokens.length + (plan.drafts?.tokens.length ?? 0));
    if (pass) {
      describe(pass, rawContext, plan);
      future = pass.execute();
    } else {
      const seed = plan.seed === undefined ? undefined : BigInt.asUintN(64, BigInt(plan.seed));
      const mask = plan.logitMask ?? NO_MASK;
      future = begin(rawContext, plan.tokens, mask, seed, sampler!.raw);
    }
    // The engine repeats a step that chooses one token.
    const repeats = sampler?.draws === 1 && !plan.logitMask?.length;
    context.stepOwner = repeats ? plan.owner : undefined;
    pages.filled(plan.tokens.length);
    await passReady(future.pollable(), context);
    if (context.released) {
      throw new Error(
        'the context was released while a pass was running. ' +
          'Where it is declared with `using`, write `return await …`, not `return …`',
      );
    }
    const slots = plan.requests?.slots ?? 0;
    const output = answer(future, slots);
    if (plan.drafts) pages.filled(plan.requests?.draftsKept(output) ?? 0);
    return output;
  } catch (error) {
    if (!context.released) pages.restore(before);
    throw error;
  } finally {
    context.running = undefined;
    future?.[Symbol.dispose]();
    pass?.[Symbol.dispose]();
  }
}

/** Computes tokens that follow the context, and waits for it without letting anything else run. */
export function computeNow(context: Context, tokens: Uint32Array, positions: Uint32Array): void {
  using pass = new ForwardPass(context.model.raw);
  context.pages.reserve(tokens.length);
  describe(pass, context.raw, { tokens, positions, call: 'save' });
  using future = pass.execute();
  using pollable = future.pollable();
  pollable.block();
  answer(future, 0);
}

/** More tokens are a prompt, which takes its time anyway. */
const FEW_TOKENS = 16;
const NO_MASK = new Uint32Array();

/** The sampler of a pass that does nothing but continue the context by a few tokens and sample the last. */
function shortStep(plan: PassPlan, length: number): Sampler | undefined {
  const count = plan.tokens.length;
  if (count > FEW_TOKENS || plan.attentionMask || plan.adapter) return undefined;
  if (plan.zoSeed !== undefined || plan.wantsDrafts || plan.drafts || plan.matchers) return undefined;
  for (let i = 0; i < count; i++) if (plan.positions[i] !== length + i) return undefined;
  return plan.requests?.samplerOf(count - 1);
}

/**
 * Queues the pass and those that follow it by themselves. The context has room for the first one's
 * tokens, and holds them.
 */
export function startChain(
  context: Context,
  plan: PassPlan,
  maxTokens: number,
  stops: Uint32Array,
): Chain {
  const pass = new ForwardPass(context.model.raw);
  context.stepOwner = undefined;
  try {
    context.pages.reserve(plan.tokens.length);
    describe(pass, context.raw, plan);
    return runChain(pass, maxTokens, stops);
  } finally {
    context.pages.resync();
    pass[Symbol.dispose]();
  }
}

function describe(pass: ForwardPass, context: RawContext, plan: PassPlan): void {
  pass.context(context);
  if (plan.tokens.length > 0) pass.inputTokens(plan.tokens, plan.positions);
  if (plan.attentionMask) pass.attentionMask([...plan.attentionMask]);
  if (plan.logitMask && plan.logitMask.length > 0) pass.logitMask(plan.logitMask);
  if (plan.adapter) pass.adapter(plan.adapter.raw);
  if (plan.seed !== undefined) seedPass(pass, BigInt.asUintN(64, BigInt(plan.seed)));
  if (plan.zoSeed !== undefined) adapterSeed(pass, toZoSeed(plan.zoSeed));
  if (plan.wantsDrafts) pass.outputSpeculativeTokens(true);
  if (plan.drafts && plan.drafts.tokens.length > 0) {
    pass.inputSpeculativeTokens(plan.drafts.tokens, plan.drafts.positions);
  }
  for (const matcher of plan.matchers ?? []) constrain(pass, matcher.raw);
  plan.requests?.attachTo(pass);
}

function answer(future: FutureOutput, slots: number): RawOutput {
  const output = future.get();
  if (output && output.slots.length >= slots) {
    // Only a pass that asked for nothing can have failed without its slots saying so.
    const why = slots === 0 ? failure(future) : undefined;
    if (why === undefined) return output;
    throw new Error(why);
  }
  throw new Error(
    failure(future) ?? `the pass gave ${output?.slots.length ?? 0} of ${slots} results`,
  );
}

/** A seed of the contract's type s64. The bindings would cut a longer one without an error. */
export function toZoSeed(seed: Seed, name = 'zoSeed'): bigint {
  const value = BigInt(checkSeed(name, seed));
  if (value !== BigInt.asIntN(64, value)) {
    throw new RangeError(`${name} must be a whole number of 64 bits with a sign, not ${value}`);
  }
  return value;
}
