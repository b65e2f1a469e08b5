/** A program as users write it. `make check-typescript` compiles it against the SDK's declarations. */
import {
  Context,
  Entropy,
  Logprobs,
  McpError,
  Model,
  Sampler,
  jsonSchema,
  messaging,
  runtime,
  session,
  type Speculator,
} from 'inferlet';
import { readFile } from 'inferlet/fs';
import path, { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

class Repeats implements Speculator {
  draft(): [Uint32Array, Uint32Array] {
    return [Uint32Array.of(1, 2), new Uint32Array()];
  }
  accept(tokens: Uint32Array): void {
    console.log(tokens.length);
  }
  rollback(n: number): void {
    console.log(n);
  }
  reset(): void {
    console.log('reset');
  }
}

interface City {
  name: string;
  people: number;
}

export async function main(input: { prompt: string }): Promise<{ text: string; city: City }> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.system('Be brief.').user(input.prompt).append(model.tokenizer().encode('hello'));
  const text: string = await ctx
    .generate(Sampler.topP(0.6, 0.95), { maxTokens: 8, speculator: new Repeats(), seed: 7n })
    .collectText();
  const g = ctx.fork().generate(Sampler.argmax(), { maxTokens: 8, constrain: jsonSchema('{}') });
  const handle = g.probeEachStep(0, Entropy());
  for await (const step of g) {
    const probe = step.probe(0, Logprobs([1, 2]));
    const out = await step.execute();
    const entropy: number | undefined = out.entropy(handle);
    const logprobs: Float32Array | undefined = out.logprobs(probe);
    session.send({ entropy, logprobs, tokens: out.tokens });
  }
  try {
    await sleep(1);
    await messaging.pushWait('topic', await readFile(join('/scratch', path.basename('b/a.txt')), 'utf8'));
  } catch (error) {
    if (error instanceof McpError) console.log(error.code);
  }
  const city = await ctx.generate(Sampler.argmax()).collectJson<City>({ schema: { type: 'object' } });
  return { text, city };
}
