/// <reference path="./pie-core-context.d.ts" />
/// <reference path="./pie-core-inference.d.ts" />
/// <reference path="./pie-core-messaging.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
/// <reference path="./pie-instruct-tool-use.d.ts" />
declare module 'pie:plus/fallible' {
  /**
   * `messaging.push`. Fails when the queue or the user's message memory is full, or if the topic or message is too long.
   */
  export function push(topic: string, message: string): void;
  /**
   * `messaging.pull`. Fails when the topic's name is too long or too many topics are in use.
   */
  export function pull(topic: string): FutureString;
  /**
   * `messaging.broadcast`. Fails when the user's message memory is full, or the topic or message is too long.
   */
  export function broadcast(topic: string, message: string): void;
  /**
   * `messaging.subscribe`. Fails when the topic's name is too long or too many topics are in use.
   */
  export function subscribe(topic: string): Subscription;
  /**
   * `session.send`. Fails when the message is too long.
   */
  export function send(message: string): void;
  /**
   * `session.send-file`. Fails when the file is too long.
   */
  export function sendFile(data: Blob): void;
  /**
   * `tokenizer.encode`. Fails when the vocabulary cannot express the text.
   */
  export function encode(tokenizer: Tokenizer, text: string): Uint32Array;
  /**
   * `context.release-working-pages`. Fails when the context has fewer working pages.
   */
  export function releaseWorkingPages(context: Context, n: number): void;
  /**
   * `context.truncate-working-page-tokens`. Fails when the context holds fewer tokens.
   */
  export function truncateWorkingPageTokens(context: Context, n: number): void;
  /**
   * `grammar.json`. Fails when the inferlet holds too many handles.
   */
  export function jsonGrammar(): Grammar;
  /**
   * The constructor of `matcher`. Fails when the grammar cannot be compiled for the tokenizer.
   */
  export function createMatcher(grammar: Grammar, tokenizer: Tokenizer): Matcher;
  /**
   * `tool-use.create-decoder`. Fails when the model's format of tool calls is unknown.
   */
  export function createToolDecoder(model: Model): Decoder;
  /**
   * `tool-use.format`. Fails when a tool's schema is wrong, or uses a keyword that is not enforced.
   */
  export function createToolGrammar(model: Model, tools: Array<string>): Grammar | undefined;
  /**
   * `tool-use.create-matcher`. Fails when the model's format has no grammar.
   */
  export function createToolMatcher(model: Model, tools: Array<string>): Matcher;
  export type Error = import('pie:core/types').Error;
  export type Blob = import('pie:core/types').Blob;
  export type FutureString = import('pie:core/types').FutureString;
  export type Model = import('pie:core/model').Model;
  export type Tokenizer = import('pie:core/model').Tokenizer;
  export type Context = import('pie:core/context').Context;
  export type Grammar = import('pie:core/inference').Grammar;
  export type Matcher = import('pie:core/inference').Matcher;
  export type Subscription = import('pie:core/messaging').Subscription;
  export type Decoder = import('pie:instruct/tool-use').Decoder;
}
