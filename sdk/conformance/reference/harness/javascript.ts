/** Runs the rows of the reference in TypeScript. `{rows}` are made from the *.rows files. */
import {
  Adapter, allowOnly, anyJson, Context, Distribution, ebnf, Embedding, Entropy, Forward, Generator, GenStep, Grammar,
  grammar, GrammarConstraint, jsonSchema, Logits, Logprob, Logprobs, Matcher, McpSession, Model, Output, regex, Sampler,
  Subscription, Tokenizer, chat, mcp, messaging, reasoning, runtime, scheduling, session, tools, zo,
} from 'inferlet';
import type { Constraint, ProbeHandle, RawContext, SampleHandle, Schema, Speculator } from 'inferlet';
import { readFile, writeFile } from 'node:fs/promises';

const GREEDY = Sampler.argmax();
const TUNING = { rank: 2, alpha: 2.0, populationSize: 4, muFraction: 0.5, initialSigma: 0.5 };
const SCHEMA = JSON.stringify({
  name: 'f',
  description: 'd',
  parameters: { type: 'object', properties: { x: { type: 'integer' } }, required: ['x'] },
});

class MySpec implements Speculator {
  draft(): [Uint32Array, Uint32Array] {
    return [new Uint32Array(), new Uint32Array()];
  }
  accept(_tokens: Uint32Array): void {}
  rollback(_n: number): void {}
  reset(): void {}
}

function check(condition: boolean): void {
  if (!condition) throw new Error('the check does not hold');
}

function fails(action: () => unknown): void {
  try {
    action();
  } catch {
    return;
  }
  throw new Error('nothing was thrown');
}

let numbers = 0;
const fresh = (): string => `reference-javascript-${numbers++}`;

const rows: Record<string, (model: Model) => Promise<void>> = {};
// {rows}

export async function main(input: { fail?: string }): Promise<{ errors: Record<string, string> }> {
  if (input.fail !== undefined) throw new Error(input.fail);
  const model = Model.load(runtime.models()[0]!);
  const errors: Record<string, string> = {};
  for (const [name, run] of Object.entries(rows)) {
    try {
      await run(model);
    } catch (error) {
      errors[name] = String(error);
    }
  }
  return { errors };
}
