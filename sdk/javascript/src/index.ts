/** The Pie SDK for inferlets in TypeScript and JavaScript. See README.md. */
/// <reference path="../generated/imports.d.ts" />
/// <reference path="./files/node.d.ts" />
export { Adapter, type AdapterFiles } from './adapter.ts';
export { allowOnly, intersect, type Brle } from './brle.ts';
export type { Constraint, Schema } from './constraint.ts';
export { Context } from './context.ts';
export { Forward } from './forward.ts';
export { Generator, type GenerateOptions } from './generator.ts';
export {
  anyJson,
  ebnf,
  Grammar,
  grammar,
  GrammarConstraint,
  jsonSchema,
  Matcher,
  regex,
} from './grammar.ts';
export type { HttpHandler } from './http/serve.ts';
export { RawContext } from './inner.ts';
export { McpError, McpSession } from './mcp.ts';
export { Subscription } from './messaging.ts';
export { Model, Tokenizer } from './model.ts';
export { Output, type ProbeHandle, type SampleHandle } from './output.ts';
export type { Seed } from './pass.ts';
export { Distribution, Embedding, Entropy, Logits, Logprob, Logprobs, type Probe } from './probe.ts';
export { Sampler } from './sampler.ts';
export type { Shaped } from './shape.ts';
export type { Speculator } from './speculation.ts';
export { GenStep } from './step.ts';

export * as chat from './chat.ts';
export * as mcp from './mcp.ts';
export * as messaging from './messaging.ts';
export * as reasoning from './reasoning.ts';
export * as runtime from './runtime.ts';
export * as scheduling from './scheduling.ts';
export * as session from './session.ts';
export * as tools from './tools.ts';
export * as zo from './zo.ts';
