/// <reference path="./pie-core-adapter.d.ts" />
/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./wasi-io-poll.d.ts" />
declare module 'pie:core/inference' {
  export type Pollable = import('wasi:io/poll@0.2.12').Pollable;
  export type Error = import('pie:core/types').Error;
  export type Brle = import('pie:core/types').Brle;
  export type Model = import('pie:core/model').Model;
  export type Tokenizer = import('pie:core/model').Tokenizer;
  export type Context = import('pie:core/context').Context;
  export type Adapter = import('pie:core/adapter').Adapter;
  /**
   * What to read at an output row. The first five choose a token; temperature 0 is greedy. The rest are probes.
   */
  export type Sampler = SamplerMultinomial | SamplerTopK | SamplerTopP | SamplerMinP | SamplerTopKTopP | SamplerEmbedding | SamplerDist | SamplerRawLogits | SamplerLogprob | SamplerLogprobs | SamplerEntropy;
  /**
   * (temperature, draws)
   */
  export interface SamplerMultinomial {
    tag: 'multinomial',
    val: [number, number],
  }
  /**
   * (temperature, k)
   */
  export interface SamplerTopK {
    tag: 'top-k',
    val: [number, number],
  }
  /**
   * (temperature, p)
   */
  export interface SamplerTopP {
    tag: 'top-p',
    val: [number, number],
  }
  /**
   * (temperature, p)
   */
  export interface SamplerMinP {
    tag: 'min-p',
    val: [number, number],
  }
  /**
   * (temperature, k, p)
   */
  export interface SamplerTopKTopP {
    tag: 'top-k-top-p',
    val: [number, number, number],
  }
  export interface SamplerEmbedding {
    tag: 'embedding',
  }
  /**
   * (temperature, k): the k likeliest tokens with probabilities; k = 0 for the whole vocabulary.
   */
  export interface SamplerDist {
    tag: 'dist',
    val: [number, number],
  }
  export interface SamplerRawLogits {
    tag: 'raw-logits',
  }
  export interface SamplerLogprob {
    tag: 'logprob',
    val: number,
  }
  export interface SamplerLogprobs {
    tag: 'logprobs',
    val: Uint32Array,
  }
  export interface SamplerEntropy {
    tag: 'entropy',
  }
  export type SlotOutput = SlotOutputToken | SlotOutputDistribution | SlotOutputLogits | SlotOutputLogprobs | SlotOutputEntropy | SlotOutputEmbedding;
  export interface SlotOutputToken {
    tag: 'token',
    val: number,
  }
  export interface SlotOutputDistribution {
    tag: 'distribution',
    val: [Uint32Array, Float32Array],
  }
  /**
   * Little-endian f32, one a token of the vocabulary.
   */
  export interface SlotOutputLogits {
    tag: 'logits',
    val: Uint8Array,
  }
  export interface SlotOutputLogprobs {
    tag: 'logprobs',
    val: Float32Array,
  }
  export interface SlotOutputEntropy {
    tag: 'entropy',
    val: number,
  }
  export interface SlotOutputEmbedding {
    tag: 'embedding',
    val: Uint8Array,
  }
  export interface Output {
    /**
     * In the order in which samplers were added, one a requested row (and draw).
     */
    slots: Array<SlotOutput>,
    specTokens: Uint32Array,
    specPositions: Uint32Array,
  }
  
  export class ForwardPass implements Disposable {
    constructor(model: Model)
    /**
    * The context that the tokens extend.
    */
    context(context: Context): void;
    /**
    * Tokens and the position of each.
    */
    inputTokens(tokens: Uint32Array, positions: Uint32Array): void;
    /**
    * Draft tokens to verify behind the input.
    */
    inputSpeculativeTokens(tokens: Uint32Array, positions: Uint32Array): void;
    /**
    * Ask the engine to draft.
    */
    outputSpeculativeTokens(enable: boolean): void;
    /**
    * One row an input token; true = attend. Rows are clipped to the causal limit.
    */
    attentionMask(rows: Array<Brle>): void;
    /**
    * Over the vocabulary; true = allowed.
    */
    logitMask(mask: Brle): void;
    /**
    * Read the given input rows.
    */
    sampler(indices: Uint32Array, sampler: Sampler): void;
    adapter(adapter: Adapter): void;
    /**
    * Queue the pass. A pass is executed once.
    */
    execute(): FutureOutput;
    [Symbol.dispose](): void;
  }
  
  export class FutureOutput implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    pollable(): Pollable;
    /**
    * None while the pass has not run.
    */
    get(): Output | undefined;
    [Symbol.dispose](): void;
  }
  
  export class Grammar implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    static fromJsonSchema(schema: string): Grammar;
    /**
    * Any JSON text.
    */
    static json(): Grammar;
    static fromRegex(pattern: string): Grammar;
    /**
    * Lark or GBNF.
    */
    static fromEbnf(source: string): Grammar;
    toString(): string;
    [Symbol.dispose](): void;
  }
  
  export class Matcher implements Disposable {
    constructor(grammar: Grammar, tokenizer: Tokenizer)
    acceptTokens(tokens: Uint32Array): void;
    nextTokenLogitMask(): Brle;
    isTerminated(): boolean;
    reset(): void;
    [Symbol.dispose](): void;
  }
}
