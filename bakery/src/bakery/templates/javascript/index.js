/** {{description}}. */
import { Context, Model, runtime, Sampler } from 'inferlet';

/** Runs inside the engine. `input` holds the parameters of Pie.toml. */
export async function main(input) {
  const model = Model.load(runtime.models()[0]);
  using ctx = new Context(model);
  ctx.system('You are a helpful assistant.').user(input.prompt ?? 'Tell me about pie.');
  const generator = ctx.generate(Sampler.topP(0.6, 0.95), { maxTokens: input.max_tokens ?? 64 });
  return await generator.collectText();
}
