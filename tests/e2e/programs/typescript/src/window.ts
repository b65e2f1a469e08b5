import { Context, Forward, Model, Sampler, chat, runtime } from 'inferlet';

const row = (position: number, sink: number, window: number): Uint32Array => {
  const n = position + 1;
  return n <= sink + window ? Uint32Array.of(0, n) : Uint32Array.of(0, sink, n - sink - window, window);
};

async function decode(ctx: Context, prompt: Uint32Array, n: number, stop: Set<number>, sink: number, window: number): Promise<number[]> {
  const result: number[] = [];
  let pending: Uint32Array = prompt;
  while (result.length < n) {
    const fwd: Forward = ctx.forward();
    const start = fwd.startPosition();
    fwd.input(pending).attentionMask(Array.from(pending, (_, i) => row(start + i, sink, window)));
    const h = fwd.sample([pending.length - 1], Sampler.argmax());
    const token = (await fwd.execute()).token(h);
    if (token === undefined) throw new Error('no token');
    if (stop.has(token)) break;
    result.push(token);
    pending = new Uint32Array([token]);
  }
  return result;
}

export async function main(input: { n?: number }) {
  const n = input.n ?? 8;
  const model = Model.load(runtime.models()[0]!);
  const stop = new Set(chat.stopTokens(model));
  const prompt = Uint32Array.from([...chat.system(model, 'Helpful.'), ...chat.user(model, 'Count.'), ...chat.cue(model)]);
  const wide = await decode(new Context(model), prompt, n, stop, 4, 100000);
  const full = await new Context(model).append(prompt).generate(Sampler.argmax(), { maxTokens: n, autoFlush: false }).collectTokens();
  if (wide.join() !== full.join()) throw new Error(`${wide} != ${full}`);
  const narrow = await decode(new Context(model), prompt, n, stop, 4, 12);
  const ctx = new Context(model);
  const a = ctx.fork().forward().input(prompt);
  const b = ctx.fork().forward().inputAt(prompt, Uint32Array.from(prompt.keys()));
  const ha = a.sample([prompt.length - 1], Sampler.argmax());
  const hb = b.sample([prompt.length - 1], Sampler.argmax());
  const [oa, ob] = await Promise.all([a.execute(), b.execute()]);
  if (oa.token(ha) !== ob.token(hb)) throw new Error('positions');
  const m = new Context(model).forward().input([1, 2, 3]).mask([5, 1]);
  const hm = m.sample([2], Sampler.topK(1, 10));
  if ((await m.execute()).token(hm) !== 5) throw new Error('mask');
  return { full: model.tokenizer().decode(full), narrow: model.tokenizer().decode(narrow), page: ctx.pageSize };
}
