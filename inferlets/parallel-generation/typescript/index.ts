/** Several answers to one prompt: the prompt is computed once, its forks share the pages and run at once. */
import { Context, Model, runtime, Sampler } from 'inferlet';

interface Input {
  prompt?: string;
  n?: number;
  max_tokens?: number;
}

export async function main(input: Input): Promise<string[]> {
  const { prompt = 'Tell me about pie.', n = 4, max_tokens: maxTokens = 32 } = input;
  const model = Model.load(runtime.models()[0]!);
  using prefix = new Context(model);
  prefix.system('You are a helpful assistant.').user(prompt);
  await prefix.flush();

  const answer = async (): Promise<string> => {
    using ctx = prefix.fork();
    return await ctx.generate(Sampler.topP(0.8, 0.95), { maxTokens }).collectText();
  };
  return Promise.all(Array.from({ length: n }, answer));
}
