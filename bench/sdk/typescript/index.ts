/** Generates tokens as bench/sdk.py asks for, and says what one took. */
import { Context, Model, runtime, Sampler, session } from 'inferlet';

interface Input {
  tokens: number;
  rounds: number;
  chained: boolean;
  first?: boolean;
}

/** Microseconds a token, of each round. */
export async function main(input: Input): Promise<number[]> {
  const model = Model.load(runtime.models()[0]!);
  const times: number[] = [];
  for (let round = 0; round < input.rounds; round++) {
    using ctx = new Context(model);
    ctx.append([97]);
    const start = performance.now();
    const generator = ctx.generate(Sampler.argmax(), { maxTokens: input.tokens, autoFlush: false });
    generator.stop([]);
    if (input.chained) {
      await generator.collectTokens();
    } else {
      for await (const step of generator) {
        await step.execute();
        if (input.first) session.send('first');
      }
    }
    times.push(((performance.now() - start) * 1000) / input.tokens);
  }
  return times;
}
