/** What can be read at a row besides a token. Each probe gives one slot of the output. */
import type { Sampler as RawSampler } from 'pie:core/inference';
import { toU32, type Tokens } from './tokens.ts';

/** What to read at a row. The functions below make probes. */
export interface Probe {
  /** @internal */ readonly raw: RawSampler;
}

/** The raw logits: `out.logits(h)`. */
export const Logits = (): Probe => ({ raw: { tag: 'raw-logits' } });

/** The `k` likeliest tokens with their probabilities (0 = the whole vocabulary): `out.distribution(h)`. */
export const Distribution = (temperature: number, k: number): Probe => ({
  raw: { tag: 'dist', val: [temperature, k] },
});

/** The log-probability of one token: `out.logprobs(h)`, of length 1. */
export const Logprob = (token: number): Probe => ({ raw: { tag: 'logprob', val: token } });

/** The log-probabilities of several tokens, in that order: `out.logprobs(h)`. */
export const Logprobs = (tokens: Tokens): Probe => ({
  raw: { tag: 'logprobs', val: toU32(tokens) },
});

/** The Shannon entropy of the distribution: `out.entropy(h)`. */
export const Entropy = (): Probe => ({ raw: { tag: 'entropy' } });

/** The hidden state of the row after the model's last norm: `out.embedding(h)`. */
export const Embedding = (): Probe => ({ raw: { tag: 'embedding' } });
