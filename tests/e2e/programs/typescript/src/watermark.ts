import { Context, Distribution, Model, Sampler, chat, runtime, session, type Constraint } from 'inferlet';

function mulberry32(a: number): () => number {
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
const isGreen = (prev: number, token: number, key: number): boolean => mulberry32(prev * 7919 + token * 31 + key)() < 0.5;

class Watermark implements Constraint {
  #prev = 0;
  constructor(private vocab: number, private key: number, private always: ReadonlySet<number>) {}
  step(accepted: Uint32Array): Uint32Array {
    if (accepted.length > 0) this.#prev = accepted[accepted.length - 1];
    const runs: number[] = [];
    let current = false, n = 0;
    for (let t = 0; t < this.vocab; t++) {
      const ok = this.always.has(t) || isGreen(this.#prev, t, this.key);
      if (ok === current) n++;
      else { runs.push(n); current = ok; n = 1; }
    }
    runs.push(n);
    return new Uint32Array(runs);
  }
}

const z = (tokens: ArrayLike<number>, key: number): number => {
  let hits = 0;
  const n = tokens.length - 1;
  for (let i = 1; i <= n; i++) if (isGreen(tokens[i - 1], tokens[i], key)) hits++;
  return n > 0 ? (hits - 0.5 * n) / Math.sqrt(0.25 * n) : 0;
};

export async function main(input: { n?: number; key?: number }): Promise<{ hard: number; soft: number; text: string }> {
  const { n = 12, key = 42 } = input;
  const model = Model.load(runtime.models()[0]!);
  const vocab = model.tokenizer().vocabs()[0].length;
  const stop = new Set<number>(chat.stopTokens(model));
  using a = new Context(model);
  const hard = await a.user('A story.').generate(Sampler.topP(1, 0.95), { maxTokens: n, constrain: new Watermark(vocab, key, stop) }).collectTokens();
  for (let i = 1; i < hard.length; i++) if (!isGreen(hard[i - 1], hard[i], key)) throw new Error(`token ${i} is red`);
  using b = new Context(model);
  const g = b.user('A story.').generate(Sampler.argmax(), { maxTokens: n });
  const h = g.probeEachStep(0, Distribution(1, 16));
  const soft: number[] = [];
  const random = mulberry32(1);
  for await (const step of g) {
    step.clearSampler();
    const out = await step.execute();
    const [ids, probs] = out.distribution(h)!;
    const prev = soft.at(-1) ?? 0;
    const weights = Array.from(probs, (p, i) => p * (isGreen(prev, ids[i], key) ? 8 : 1));
    let r = random() * weights.reduce((x, y) => x + y, 0);
    let pick = ids[0];
    for (let i = 0; i < weights.length; i++) { r -= weights[i]; if (r <= 0) { pick = ids[i]; break; } }
    soft.push(...g.accept(Uint32Array.of(pick)));
  }
  session.send({ channel: 'progress', hard: z(hard, key), soft: z(soft, key) });
  return { hard: z(hard, key), soft: z(soft, key), text: model.tokenizer().decode(Uint32Array.from(soft)) };
}
