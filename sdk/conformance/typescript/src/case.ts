/** Shared by all cases. */
import { Context, Model, runtime, type tools } from 'inferlet';

/** The input of a case. Which fields there are depends on the case. */
export interface Input {
  value?: unknown;
  text?: string;
  texts?: string[];
  prompt?: string;
  system?: string;
  user?: string;
  assistant?: string;
  name?: string;
  topic?: string;
  token?: number;
  tokens?: number[];
  batches?: number[][];
  allowed?: number[];
  max_tokens?: number;
  seed?: number;
  ms?: number;
  n?: number;
  script?: Step[];
  kind?: string;
  source?: string;
  sampler?: string;
  tools?: string[];
}

/** One line of a `turns` script. */
export interface Step {
  do: string;
  text?: string;
  name?: string;
  tools?: string[];
  tokens?: number[];
  calls?: tools.Call[];
}

export type Cases = Record<string, (input: Input) => unknown>;

export const loadModel = (): Model => Model.load(runtime.models()[0]!);

export const encode = (model: Model, text = ''): Uint32Array => model.tokenizer().encode(text);

/** A fresh context that holds (computed) the given text. */
export async function contextWith(model: Model, text = ''): Promise<Context> {
  const ctx = new Context(model);
  ctx.append(encode(model, text));
  await ctx.flush();
  return ctx;
}

/** The index of the largest logit. */
export function argmax(logits: Uint8Array): number {
  const values = floats(logits);
  return values.reduce((best, value, index) => (value > values[best]! ? index : best), 0);
}

export function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
}

export const asText = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

/** The message of what `attempt` throws; empty if it does not. */
export async function failureOf(attempt: () => unknown): Promise<string> {
  try {
    await attempt();
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : '';
  }
}

export const sameTokens = (a: Uint32Array, b: Uint32Array): boolean =>
  a.length === b.length && a.every((token, index) => token === b[index]);
