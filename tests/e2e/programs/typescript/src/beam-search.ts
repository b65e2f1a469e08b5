import { Context, Distribution, Entropy, Logprob, Logprobs, Model, Sampler, chat, runtime } from '@pie-project/inferlet';
import type { Output, ProbeHandle } from '@pie-project/inferlet';

class Beam {
  constructor(readonly ctx: Context, readonly tokens: number[], readonly score: number, readonly done = false) {}
  get normalised(): number { return this.score / Math.max(1, this.tokens.length) ** 0.7; }
}

async function expand(ctx: Context, input: number[], width: number): Promise<[Uint32Array, Float32Array]> {
  const fwd = ctx.forward();
  if (fwd.startPosition() !== ctx.seqLen) throw new Error('start position');
  fwd.input(input);
  const row = input.length - 1;
  const h = fwd.probe(row, Distribution(1.0, width));
  const e = fwd.probe(row, Entropy());
  const out: Output = await fwd.execute();
  const d = out.distribution(h);
  if (d === undefined) throw new Error('no distribution');
  if (!((out.entropy(e) ?? -1) >= 0)) throw new Error('no entropy');
  if (out.tokens.length !== 0 || out.autoSampler !== undefined) throw new Error('raw pass');
  return d;
}

export async function main(input: { prompt?: string; width?: number; steps?: number }) {
  const { prompt = 'What is pie?', width = 3, steps = 5 } = input;
  const model = Model.load(runtime.models()[0]);
  const tk = model.tokenizer();
  const stop = new Set(chat.stopTokens(model));
  const tokens = [...chat.user(model, prompt), ...chat.cue(model)];
  const root = new Context(model);
  root.append(tokens.slice(0, -1));
  await root.flush();
  const [ids, probs] = await expand(root, tokens.slice(-1), width);
  let beams = Array.from(ids, (t, i) => new Beam(root.fork(), [t], Math.log(probs[i]), stop.has(t)));
  for (let s = 1; s < steps && beams.some((b) => !b.done); s++) {
    const results = await Promise.all(beams.map((b) => (b.done ? undefined : expand(b.ctx, b.tokens.slice(-1), width))));
    const pool: { parent: Beam; token?: number; score: number }[] = [];
    results.forEach((r, i) => {
      const parent = beams[i];
      if (!r) pool.push({ parent, score: parent.score });
      else r[0].forEach((token, k) => pool.push({ parent, token, score: parent.score + Math.log(r[1][k]) }));
    });
    pool.sort((a, b) => b.score - a.score);
    const next = pool.slice(0, width).map(({ parent, token, score }) =>
      token === undefined ? parent : new Beam(parent.ctx.fork(), [...parent.tokens, token], score, stop.has(token)));
    for (const b of beams) if (!next.includes(b)) b.ctx.release();
    beams = next;
  }
  beams.sort((a, b) => b.normalised - a.normalised);
  // score of a text
  const text = tk.encode('Pie is a dish.');
  using scored = new Context(model);
  const fwd = scored.forward().input(text);
  const hs: ProbeHandle[] = [];
  for (let i = 0; i + 1 < text.length; i++) hs.push(fwd.probe(i, Logprob(text[i + 1])));
  const many = fwd.probe(text.length - 1, Logprobs([0, 1, 2]));
  const out = await fwd.execute();
  const total = hs.reduce((s, h) => s + out.logprobs(h)![0], 0);
  if (out.logprobs(many)!.length !== 3 || !(total < 0)) throw new Error('logprobs');
  return { best: tk.decode(new Uint32Array(beams[0].tokens)), scores: beams.map((b) => b.normalised), total };
}
