/** Cases about generation. */
import {
  allowOnly,
  Context,
  Entropy,
  Logits,
  Sampler,
  type Constraint,
  type GenerateOptions,
  type Generator,
} from 'inferlet';
import { argmax, loadModel, sameTokens, type Cases, type Input } from './case.ts';

/** Runs `use` on a generation from the prompt, greedy unless told otherwise. */
async function withGenerator<T>(
  { prompt, max_tokens }: Input,
  use: (generator: Generator, ctx: Context) => Promise<T>,
  options: GenerateOptions = {},
  sampler = Sampler.argmax(),
): Promise<T> {
  using ctx = new Context(loadModel());
  ctx.user(prompt!);
  return await use(ctx.generate(sampler, { maxTokens: max_tokens, ...options }), ctx);
}

const allTokens = (generator: Generator): Promise<Uint32Array> => generator.collectTokens();

const allText = (generator: Generator): Promise<string> => generator.collectText();

/** The same among the allowed tokens. */
function withMask<T>(
  input: Input,
  use: (generator: Generator) => Promise<T>,
  options: GenerateOptions = {},
): Promise<T> {
  return withGenerator(input, use, { logitMask: allowOnly(input.allowed!), ...options });
}

class OnlyThese implements Constraint {
  readonly calls: number[][] = [];
  readonly #mask: Uint32Array;

  constructor(allowed: number[]) {
    this.#mask = allowOnly(allowed);
  }

  step(accepted: Uint32Array): Uint32Array {
    this.calls.push([...accepted]);
    return this.#mask;
  }
}

export const generateCases: Cases = {
  generate_tokens: (input) => withGenerator(input, allTokens),

  generate_flushed: async ({ prompt, max_tokens }) => {
    const options = { maxTokens: max_tokens, autoFlush: false };
    using ctx = new Context(loadModel());
    await ctx.user(prompt!).cue().flush();
    const length = ctx.seqLen;
    const tokens = await ctx.generate(Sampler.argmax(), options).collectTokens();
    using other = new Context(loadModel());
    await other.user(prompt!).cue().flush();
    const generator = other.generate(Sampler.argmax(), options);
    const entropy = generator.probeEachStep(0, Entropy());
    const stepped: number[] = [];
    let probed = true;
    for await (const step of generator) {
      const out = await step.execute();
      probed &&= out.entropy(entropy) !== undefined;
      stepped.push(...out.tokens);
    }
    return {
      tokens,
      same_stepped: sameTokens(Uint32Array.from(stepped), tokens),
      probed,
      grown: other.seqLen + other.buffer().length - length === tokens.length,
    };
  },

  generate_text: (input) => withGenerator(input, allText),

  generate_steps: (input) =>
    withGenerator(input, async (generator) => {
      const tokens: number[] = [];
      for await (const step of generator) tokens.push(...(await step.execute()).tokens);
      return { tokens, generated: generator.tokensGenerated, done: generator.isDone };
    }),

  generate_manual: (input) =>
    withGenerator(input, async (generator) => {
      const tokens: number[] = [];
      for await (const step of generator) {
        const logits = step.clearSampler().probe(0, Logits());
        const out = await step.execute();
        tokens.push(...generator.accept([argmax(out.logits(logits)!)]));
      }
      return tokens;
    }),

  generate_override: (input) =>
    withGenerator(input, async (generator) => {
      const tokens: number[] = [];
      for await (const step of generator) {
        await step.execute();
        tokens.push(...generator.accept([input.token!]));
      }
      return { tokens, generated: generator.tokensGenerated, done: generator.isDone };
    }),

  generate_constrained: async (input) => {
    const constraint = new OnlyThese(input.allowed!);
    const options = { constrain: constraint };
    const tokens = await withGenerator(input, allTokens, options);
    return { tokens, calls: constraint.calls.slice(0, 3) };
  },

  generate_masked: (input) => withMask(input, allTokens),

  generate_stops: async (input) => {
    const tokens = input.tokens!;
    return {
      own: await withMask(input, allTokens),
      added: await withMask(input, allTokens, { stop: tokens }),
      replaced: await withMask(input, (generator) => generator.stop(tokens).collectTokens()),
      none: await withMask(input, (generator) => generator.stop([]).collectTokens()),
    };
  },

  generate_special: async (input) => {
    const constrain = new OnlyThese(input.allowed!);
    const logitMask = allowOnly(input.allowed!);
    const seed = input.seed!;
    // Every allowed token is about as likely as any other.
    const sampler = Sampler.topP(1000.0, 1.0);
    return {
      tokens: await withGenerator(input, allTokens, { logitMask, seed }, sampler),
      text: await withGenerator(input, allText, { logitMask, seed }, sampler),
      stepped: await withGenerator(input, allText, { constrain, seed }, sampler),
    };
  },

  generate_probed: (input) =>
    withGenerator(input, async (generator) => {
      const entropy = generator.probeEachStep(0, Entropy());
      const entropies: number[] = [];
      for await (const step of generator) entropies.push((await step.execute()).entropy(entropy)!);
      return entropies;
    }),

  generate_seeded: async (input) => {
    const run = (seed: number): Promise<Uint32Array> =>
      withGenerator(input, allTokens, { seed }, Sampler.topP(1.0, 0.95));
    const first = await run(input.seed!);
    return {
      same: sameTokens(first, await run(input.seed!)),
      differs: !sameTokens(first, await run(input.seed! + 1)),
    };
  },
};
