/** One chat turn: every piece of text is sent to the client as it comes, the whole is returned. */
import { chat, Context, Model, runtime, Sampler, session } from 'inferlet';

interface Input {
  prompt: string;
  max_tokens?: number;
  temperature?: number;
  system?: string;
}

export async function main(input: Input): Promise<string> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.system(input.system ?? 'You are a helpful assistant.').user(input.prompt);

  const sampler = Sampler.topP(input.temperature ?? 0.6, 0.95);
  const generator = ctx.generate(sampler, { maxTokens: input.max_tokens ?? 256 });
  const decoder = new chat.Decoder(model);
  let text = '';
  for await (const step of generator) {
    const out = await step.execute();
    const event = decoder.feed(out.tokens);
    if (event.type === 'delta') {
      session.send(event.text);
      text += event.text;
    }
  }
  return text;
}
