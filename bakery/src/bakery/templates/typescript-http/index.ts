/** {{description}}: it answers HTTP requests. Each request runs in an instance of its own. */
import { chat, Context, type HttpHandler, Model, runtime, Sampler } from 'inferlet';

const handler: HttpHandler = {
  /** Takes a Request of the web and returns a Response of the web. */
  async fetch(request) {
    const prompt = await request.text();
    if (!prompt) return new Response('POST a prompt\n', { status: 400 });
    // The client sees each word as it comes.
    return new Response(stream(answer(prompt)), {
      headers: { 'content-type': 'text/plain; charset=utf-8' },
    });
  },
};
export default handler;

async function* answer(prompt: string): AsyncGenerator<string> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.user(prompt).cue();
  const decoder = new chat.Decoder(model);
  for await (const step of ctx.generate(Sampler.topP(0.6, 0.95), { maxTokens: 256 })) {
    const output = await step.execute();
    const event = decoder.feed(output.tokens);
    if (event.type === 'delta') yield event.text;
  }
  yield '\n';
}

/** The body of a response, from texts. */
function stream(texts: AsyncGenerator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await texts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
}
