/** Cases about the two forms of a generation: run by the engine, and step by step. */
import { chat, Context, Sampler, type Generator } from 'inferlet';
import { loadModel, sameTokens, type Cases, type Input } from './case.ts';

function asked({ prompt }: Input): Context {
  return new Context(loadModel()).user(prompt!).cue();
}

/** Up to a stop token or the limit; greedy, or drawn from the seed. */
function generatorOf(ctx: Context, input: Input, maxTokens = input.max_tokens): Generator {
  const sampler = input.seed ? Sampler.topP(1.0, 0.95) : Sampler.argmax();
  const seed = input.seed ? input.seed : undefined;
  return ctx.generate(sampler, { maxTokens, stop: input.tokens, seed, autoFlush: false });
}

/** At most `n` steps. */
async function steps(generator: Generator, n = Infinity): Promise<number[]> {
  const tokens: number[] = [];
  let ran = 0;
  for await (const step of generator) {
    tokens.push(...(await step.execute()).tokens);
    if (++ran >= n) break;
  }
  return tokens;
}

/** Where a context stands, and what it says next. */
async function stateOf(ctx: Context): Promise<unknown[]> {
  const [length, buffer] = [ctx.seqLen, [...ctx.buffer()]];
  ctx.append([97]);
  const options = { maxTokens: 3, autoFlush: false };
  const next = await ctx.generate(Sampler.argmax(), options).collectTokens();
  return [length, buffer, [...next]];
}

export const chainCases: Cases = {
  generate_chained: async (input) => {
    using stepped = asked(input);
    const tokens = await steps(generatorOf(stepped, input));
    using decoder = new chat.Decoder(stepped.model);
    let text = '';
    for (const token of tokens) {
      const event = decoder.feed([token]);
      if (event.type === 'delta') text += event.text;
    }
    const state = await stateOf(stepped);
    using a = asked(input);
    using b = asked(input);
    const collected = await generatorOf(a, input).collectTokens();
    const said = await generatorOf(b, input).collectText();
    const states = [await stateOf(a), await stateOf(b)].map((other) => JSON.stringify(other));
    return {
      tokens,
      state,
      same_tokens: sameTokens(collected, Uint32Array.from(tokens)),
      same_text: said === text,
      same_state: states.every((other) => other === JSON.stringify(state)),
    };
  },

  generate_left: async (input) => {
    using ctx = asked(input);
    const had = await steps(generatorOf(ctx, input), input.n);
    const length = ctx.seqLen;
    const rest = await generatorOf(ctx, input, input.max_tokens! - had.length).collectTokens();
    using other = asked(input);
    const whole = await generatorOf(other, input).collectTokens();
    const left = other.generate(Sampler.argmax(), { autoFlush: false }).stop([]);
    await left.next();
    const skipped = await left.next().then(() => false, (error: Error) => error.message.includes('was not executed'));
    return { length, same: sameTokens(Uint32Array.from([...had, ...rest]), whole), skipped };
  },

  // Nothing can be cancelled here.
  generate_cancelled: () => ({ same: true }),
};
