/** {{description}}. */
import { Context, Model, runtime, Sampler } from 'inferlet';

/** The parameters of Pie.toml. */
interface Input {
  prompt?: string;
  max_tokens?: number;
}

/** Runs inside the engine. A string is returned unchanged, any other value as JSON. */
export async function main(input: Input): Promise<string> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.system('You are a helpful assistant.').user(input.prompt ?? 'Tell me about pie.');
  const generator = ctx.generate(Sampler.topP(0.6, 0.95), { maxTokens: input.max_tokens ?? 64 });
  return await generator.collectText();
}
