/** Probes: values that can be read at a row besides a token. Each probe gives one slot of the output. */
import type { Sampler as RawSampler } from 'pie:core/inference';
import { kind, temperature as heat, whole } from './check.ts';
import { toU32, type Tokens } from './tokens.ts';

/** A value to read at a row. The functions below make probes. */
export interface Probe {
  /** @internal */ readonly raw: RawSampler;
}

const TAGS = new Set<string>(['raw-logits', 'dist', 'logprob', 'logprobs', 'entropy', 'embedding']);

/** @internal Throws where the value is something else, such as a sampler or a function that makes a probe. */
export function checkProbe(value: Probe): Probe {
  if (TAGS.has(value?.raw?.tag)) return value;
  throw new TypeError(`probe must be a probe (Entropy(), Logits() and others), not ${kind(value)}`);
}

/** The raw logits: `out.logits(h)`. */
export function Logits(): Probe {
  return { raw: { tag: 'raw-logits' } };
}

/** The `k` likeliest tokens with their probabilities (0 = the whole vocabulary): `out.distribution(h)`. */
export function Distribution(temperature: number, k: number): Probe {
  return { raw: { tag: 'dist', val: [heat(temperature), whole('k', k)] } };
}

/** The log-probability of one token: `out.logprobs(h)`, of length 1. */
export function Logprob(token: number): Probe {
  return { raw: { tag: 'logprob', val: whole('token', token) } };
}

/** The log-probabilities of several tokens, in that order: `out.logprobs(h)`. */
export function Logprobs(tokens: Tokens): Probe {
  return { raw: { tag: 'logprobs', val: toU32(tokens) } };
}

/** The Shannon entropy of the distribution: `out.entropy(h)`. */
export function Entropy(): Probe {
  return { raw: { tag: 'entropy' } };
}

/** The hidden state of the row after the model's last norm: `out.embedding(h)`. */
export function Embedding(): Probe {
  return { raw: { tag: 'embedding' } };
}
