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

const letter = (model: Model, text: string): number => model.tokenizer().encode(text)[0]!;

/** All tokens of the vocabulary. */
const every = (model: Model): Uint32Array => model.tokenizer().vocabs()[0];

/** A special token that does not end a turn. */
function special(model: Model): number {
  const stops = chat.stopTokens(model);
  return Math.min(...model.tokenizer().specialTokens()[0].filter((id) => !stops.includes(id)));
}

/** Whether the tokens are a text that consists of these letters alone. */
function holds(model: Model, tokens: Uint32Array, letters: string): boolean {
  return [...model.tokenizer().decode(tokens)].every((found) => letters.includes(found));
}

/** Whether a mask allows the token. The mask is a list of runs; the first run is not allowed. */
function allows(mask: Uint32Array, token: number): boolean {
  let end = 0;
  return mask.findIndex((run) => token < (end += run)) % 2 === 1;
}

const rows: Record<string, (model: Model) => Promise<void>> = {};
/** The checks of a row on a real model, where they differ. */
const real: typeof rows = {};
// {rows}

export async function main(input: { fail?: string; real?: boolean }): Promise<{ errors: Record<string, string> }> {
  if (input.fail !== undefined) throw new Error(input.fail);
  const model = Model.load(runtime.models()[0]!);
  const errors: Record<string, string> = {};
  for (const [name, run] of Object.entries(rows)) {
    try {
      await (input.real ? (real[name] ?? run) : run)(model);
    } catch (error) {
      errors[name] = String(error);
    }
  }
  return { errors };
}
