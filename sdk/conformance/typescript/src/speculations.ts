/** Cases about speculation: the same tokens in fewer passes. */
import type { GenerateOptions, Speculator } from 'inferlet';
import { constraintOf, drawn, isSame, outcome } from './constraints.ts';
import { type Cases, type Input } from './case.ts';

/** Drafts what is known to come, with a mistake at every third place, and notes its calls. */
class Drafter implements Speculator {
  readonly calls: unknown[] = [];
  readonly #truth: Uint32Array;
  readonly #n: number;
  #at = 0;

  constructor(truth: Uint32Array, n: number) {
    this.#truth = truth;
    this.#n = n;
  }

  draft(): [Uint32Array, Uint32Array] {
    const ahead = this.#truth.slice(this.#at, this.#at + this.#n);
    this.calls.push(['draft', ahead.length]);
    const wrong = ahead.map((token, i) => ((this.#at + i) % 3 !== 2 ? token : token ^ 1));
    return [wrong, new Uint32Array()];
  }

  accept(tokens: Uint32Array): void {
    this.#at += tokens.length;
    this.calls.push(['accept', tokens.length]);
  }

  rollback(n: number): void {
    this.calls.push(['rollback', n]);
  }

  reset(): void {
    this.calls.push(['reset']);
  }
}

const constrained = (input: Input): GenerateOptions =>
  input.kind ? { constrain: constraintOf(input) } : {};

export const speculationCases: Cases = {
  speculate: async (input) => {
    const plain = await drawn(input, outcome, constrained(input));
    const drafter = new Drafter(plain.tokens, input.n!);
    const options = { speculator: drafter, ...constrained(input) };
    const drafted = await drawn(input, outcome, options);
    return {
      tokens: plain.tokens,
      same: isSame({ ...plain, state: '' }, { ...drafted, state: '' }),
      same_state: plain.state === drafted.state,
      calls: drafter.calls,
    };
  },

  system_speculation: async (input) => {
    const plain = await drawn(input, outcome);
    const own = { systemSpeculation: true };
    const chained = await drawn(input, outcome, own);
    const stepped = await drawn(
      input,
      async (generator, state) => {
        const tokens: number[] = [];
        for await (const step of generator) tokens.push(...(await step.execute()).tokens);
        return { tokens: Uint32Array.from(tokens), state: state() };
      },
      own,
    );
    return { same: isSame(chained, plain), same_stepped: isSame(stepped, plain) };
  },
};
