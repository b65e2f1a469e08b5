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
   * What to compute at an output row. The first five choose a token (temperature 0 is greedy); the rest are probes.
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
  /**
   * The hidden state of the row.
   */
  export interface SamplerEmbedding {
    tag: 'embedding',
  }
  /**
   * (temperature, k): the k most likely tokens with their probabilities; k = 0 returns the whole vocabulary.
   */
  export interface SamplerDist {
    tag: 'dist',
    val: [number, number],
  }
  export interface SamplerRawLogits {
    tag: 'raw-logits',
  }
  /**
   * The log-probability of one token.
   */
  export interface SamplerLogprob {
    tag: 'logprob',
    val: number,
  }
  /**
   * The log-probabilities of several tokens.
   */
  export interface SamplerLogprobs {
    tag: 'logprobs',
    val: Uint32Array,
  }
  /**
   * The entropy of the distribution, in nats.
   */
  export interface SamplerEntropy {
    tag: 'entropy',
  }
  export type SlotOutput = SlotOutputToken | SlotOutputDistribution | SlotOutputLogits | SlotOutputLogprobs | SlotOutputEntropy | SlotOutputEmbedding;
  export interface SlotOutputToken {
    tag: 'token',
    val: number,
  }
  /**
   * (tokens, probabilities)
   */
  export interface SlotOutputDistribution {
    tag: 'distribution',
    val: [Uint32Array, Float32Array],
  }
  /**
   * Little-endian f32, one for each token of the vocabulary.
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
  /**
   * Little-endian f32.
   */
  export interface SlotOutputEmbedding {
    tag: 'embedding',
    val: Uint8Array,
  }
  export interface Output {
    /**
     * One slot for each requested row and draw, in the order in which the samplers were added.
     */
    slots: Array<SlotOutput>,
    /**
     * Draft tokens by the engine, and their positions.
     */
    specTokens: Uint32Array,
    specPositions: Uint32Array,
  }
  
  export class ForwardPass implements Disposable {
    constructor(model: Model)
    /**
    * Sets the context that the tokens extend.
    */
    context(context: Context): void;
    /**
    * Sets the input tokens and the position of each.
    */
    inputTokens(tokens: Uint32Array, positions: Uint32Array): void;
    /**
    * Sets draft tokens to verify after the input. The sampler of the last input row then gives one slot for each draft
    * that it would have chosen itself, and one for the token after them. The context keeps the drafts that were chosen.
    */
    inputSpeculativeTokens(tokens: Uint32Array, positions: Uint32Array): void;
    /**
    * Asks the engine for draft tokens: those that may follow what the pass chooses.
    */
    outputSpeculativeTokens(enable: boolean): void;
    /**
    * Sets one mask row for each input token; true = attend. Rows are clipped to the causal limit.
    */
    attentionMask(rows: Array<Brle>): void;
    /**
    * Sets a mask over the vocabulary; true = allowed.
    */
    logitMask(mask: Brle): void;
    /**
    * Adds a sampler or probe at the given input rows.
    */
    sampler(indices: Uint32Array, sampler: Sampler): void;
    /**
    * Applies a LoRA adapter in this pass.
    */
    adapter(adapter: Adapter): void;
    /**
    * Queues the pass. A pass can be executed once. Errors of the setters above are returned here.
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
    * Returns none until the pass has run.
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
    * The grammar of any JSON text.
    */
    static json(): Grammar;
    static fromRegex(pattern: string): Grammar;
    /**
    * Accepts Lark and GBNF.
    */
    static fromEbnf(source: string): Grammar;
    toString(): string;
    [Symbol.dispose](): void;
  }
  
  export class Matcher implements Disposable {
    constructor(grammar: Grammar, tokenizer: Tokenizer)
    acceptTokens(tokens: Uint32Array): void;
    /**
    * Returns the mask of the tokens that the grammar allows next.
    */
    nextTokenLogitMask(): Brle;
    /**
    * Returns whether the text is complete.
    */
    isTerminated(): boolean;
    reset(): void;
    [Symbol.dispose](): void;
  }
}
