/** A single forward pass over a context, put together by hand. */
import type { Adapter } from './adapter.ts';
import { checkAdapter } from './adapter_check.ts';
import type { Brle } from './brle.ts';
import { list, seed as checkSeed, whole } from './check.ts';
import type { Context } from './context.ts';
import { Output, type ProbeHandle, type SampleHandle } from './output.ts';
import { Requests, runPass, toZoSeed, type Seed } from './pass.ts';
import { checkProbe, type Probe } from './probe.ts';
import { checkSampler, type Sampler } from './sampler.ts';
import { positionsFrom, TokenList, toU32, type Tokens } from './tokens.ts';

/** One forward pass. Calls add to it; `execute` runs it. */
export class Forward {
  readonly #context: Context;
  readonly #start: number;
  readonly #requests = new Requests();
  readonly #tokens = new TokenList();
  readonly #positions = new TokenList();
  /** How many of the tokens, all at the end, came by `inputAt`. */
  #scored = 0;
  #attentionMask: Brle[] | undefined;
  #logitMask: Brle | undefined;
  #adapter: Adapter | undefined;
  #seed: Seed | undefined;
  #zoSeed: Seed | undefined;
  #executed = false;

  /** @internal Use `ctx.forward()`. */
  constructor(context: Context) {
    this.#context = context;
    this.#start = context.seqLen;
  }

  /** The position that the first token of `input` gets. */
  startPosition(): number {
    return this.#start;
  }

  /** Tokens that extend the context. */
  input(tokens: Tokens): this {
    if (this.#scored > 0) throw new Error('call input() before inputAt(), not after it');
    const ids = toU32(tokens);
    this.#positions.push(positionsFrom(this.#start + this.#tokens.length, ids.length));
    this.#tokens.push(ids);
    return this;
  }

  /** Tokens at positions of your own, for scoring: the context does not keep them. */
  inputAt(tokens: Tokens, positions: Tokens): this {
    const ids = toU32(tokens);
    const at = toU32(positions, 'positions');
    if (ids.length !== at.length) {
      throw new Error(`inputAt got ${ids.length} tokens but ${at.length} positions`);
    }
    this.#tokens.push(ids);
    this.#positions.push(at);
    this.#scored += ids.length;
    return this;
  }

  /** Sets one mask for each input token, over the positions up to its own; true = attend. */
  attentionMask(masks: Iterable<Tokens>): this {
    const rows = list('masks', masks, 'BRLE masks');
    this.#attentionMask = rows.map((mask) => toU32(mask, 'each of masks'));
    return this;
  }

  /** A logit mask for every sampled row; true = allowed. */
  mask(brle: Tokens): this {
    this.#logitMask = toU32(brle, 'brle');
    return this;
  }

  /** Chooses tokens at these input rows. */
  sample(indices: Tokens, sampler: Sampler): SampleHandle {
    checkSampler(sampler);
    return this.#requests.sample(toU32(indices, 'indices'), sampler);
  }

  /** Adds a probe at an input row. */
  probe(idx: number, probe: Probe): ProbeHandle {
    return this.#requests.probe(whole('idx', idx), checkProbe(probe));
  }

  /** Applies an adapter to the pass. */
  adapter(adapter: Adapter): this {
    this.#adapter = checkAdapter(adapter);
    return this;
  }

  /** Makes this pass's random choices reproducible. */
  seed(seed: Seed): this {
    this.#seed = checkSeed('seed', seed);
    return this;
  }

  /** An Evolution Strategies seed for this pass. */
  zoSeed(seed: Seed): this {
    this.#zoSeed = toZoSeed(seed, 'seed');
    return this;
  }

  /** Runs the pass, once. A second call throws; a failed pass leaves the context as it was. */
  async execute(): Promise<Output> {
    if (this.#executed) throw new Error('a Forward is executed once: ask ctx.forward() for another');
    this.#executed = true;
    const raw = await runPass(this.#context, {
      tokens: this.#tokens.toArray(),
      positions: this.#positions.toArray(),
      requests: this.#requests,
      attentionMask: this.#attentionMask,
      logitMask: this.#logitMask,
      adapter: this.#adapter,
      seed: this.#seed,
      zoSeed: this.#zoSeed,
      call: 'forward.execute()',
    });
    this.#context.pages.truncate(this.#scored);
    this.#context.pages.commitFull();
    return Output.of(raw, this.#requests.layout);
  }
}
