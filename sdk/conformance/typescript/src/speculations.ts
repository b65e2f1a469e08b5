/** Cases about speculation: the same tokens in fewer passes. */
import { Context, Entropy, Logprob, Sampler, type GenerateOptions, type Speculator } from 'inferlet';
import { constraintOf, drawn, isSame, outcome } from './constraints.ts';
import { failureOf, loadModel, type Cases, type Input } from './case.ts';

/** Drafts the tokens that are known to come, with a mistake at every third place, and records its calls. */
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

/** Drafts what is known to come, at positions that are `shift` too high, `missing` too few. */
class Placed implements Speculator {
  drafts = 0;
  #at = 0;

  constructor(
    readonly truth: Uint32Array,
    readonly start: number,
    readonly n: number,
    readonly shift: number | undefined,
    readonly missing = 0,
  ) {}

  draft(): [Uint32Array, Uint32Array] {
    this.drafts++;
    const ahead = this.truth.slice(this.#at, this.#at + this.n);
    if (this.shift === undefined) return [ahead, new Uint32Array()];
    const first = this.start + this.#at + this.shift;
    return [ahead, ahead.map((_, i) => first + i).slice(0, ahead.length - this.missing)];
  }

  accept(tokens: Uint32Array): void {
    this.#at += tokens.length;
  }

  rollback(): void {}
  reset(): void {}
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

  speculate_probed: async (input) => {
    const read = (more: GenerateOptions = {}) =>
      drawn(
        input,
        async (generator) => {
          const tokens: number[] = [];
          const probes: unknown[] = [];
          let steps = 0;
          const each = generator.probeEachStep(0, Entropy());
          for await (const step of generator) {
            const own = step.probe(0, Logprob(97));
            const out = await step.execute();
            steps++;
            tokens.push(...out.tokens);
            for (let i = 0; i < out.tokens.length; i++) {
              probes.push([out.entropy(each.at(i)), out.logprobs(own.at(i))![0]]);
            }
          }
          return { tokens, probes, steps };
        },
        more,
      );
    const plain = await read();
    const speculator = new Drafter(Uint32Array.from(plain.tokens), input.n!);
    const drafted = await read({ speculator });
    return {
      tokens: plain.tokens,
      probes: plain.probes,
      same: drafted.tokens.join() === plain.tokens.join(),
      same_probes: JSON.stringify(drafted.probes) === JSON.stringify(plain.probes),
      steps: drafted.steps,
    };
  },

  draft_positions: async ({ prompt, n, max_tokens }) => {
    const model = loadModel();
    const run = async (speculator?: Placed): Promise<[string, number]> => {
      using ctx = new Context(model).user(prompt!).cue();
      const options = { maxTokens: max_tokens, speculator, autoFlush: false };
      const tokens = await ctx.generate(Sampler.argmax(), options).collectTokens();
      return [tokens.join(), speculator?.drafts ?? 0];
    };
    using ctx = new Context(model).user(prompt!).cue();
    const start = ctx.buffer().length;
    const [text] = await run();
    const truth = Uint32Array.from(text.split(','), Number);
    const none = await run(new Placed(truth, start, n!, undefined));
    const right = await run(new Placed(truth, start, n!, 0));
    const wrong = await run(new Placed(truth, start, n!, 7));
    return {
      same: none[0] === text && right[0] === text,
      same_calls: none[1] === right[1],
      wrong_differs: wrong[0] !== right[0] || wrong[1] !== right[1],
      wrong: Array.from(wrong[0].split(','), Number),
      mismatch: (await failureOf(() => run(new Placed(truth, start, n!, 0, 1)))) !== '',
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
