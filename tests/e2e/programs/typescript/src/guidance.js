// Plain JavaScript: classifier-free guidance.
import { Context, Distribution, Entropy, Logits, Logprob, Model, Sampler, chat, runtime } from 'inferlet';

/** @param {Uint8Array} b */
const floats = (b) => new Float32Array(b.buffer, b.byteOffset, b.byteLength / 4);
const logSoftmax = (x) => {
  const top = x.reduce((a, b) => Math.max(a, b), -Infinity);
  const z = top + Math.log(x.reduce((s, v) => s + Math.exp(v - top), 0));
  return x.map((v) => v - z);
};
const argmax = (x) => x.reduce((best, v, i) => (v > x[best] ? i : best), 0);

async function guided(model, a, b, scale, maxTokens) {
  using pos = new Context(model).user(a);
  using neg = new Context(model).user(b);
  const gp = pos.generate(Sampler.argmax(), { maxTokens });
  const gn = neg.generate(Sampler.argmax(), { maxTokens });
  const ip = gp[Symbol.asyncIterator]();
  const inn = gn[Symbol.asyncIterator]();
  const all = [];
  for (;;) {
    const [p, n] = [await ip.next(), await inn.next()];
    if (p.done || n.done) break;
    const hp = p.value.clearSampler().probe(0, Logits());
    const hn = n.value.clearSampler().probe(0, Logits());
    const [op, on] = await Promise.all([p.value.execute(), n.value.execute()]);
    if (op.autoSampler !== undefined) throw new Error('autoSampler');
    const lp = logSoftmax(floats(op.logits(hp)));
    const ln = logSoftmax(floats(on.logits(hn)));
    const chosen = argmax(lp.map((x, i) => ln[i] + scale * (x - ln[i])));
    const kept = gp.accept([chosen]);
    gn.accept(new Uint32Array([chosen]));
    all.push(...kept);
    if (gp.isDone) break;
  }
  return all;
}

export async function main({ prompt = 'Say hello.', n = 6 } = {}) {
  const model = Model.load(runtime.models()[0]);
  const tk = model.tokenizer();
  const plain = [...(await new Context(model).user(prompt).generate(Sampler.argmax(), { maxTokens: n }).collectTokens())];
  const same = await guided(model, prompt, prompt, 1, n);
  if (plain.join() !== same.join()) throw new Error(`${plain} != ${same}`);
  const other = await guided(model, prompt, 'Be quiet.', 1.5, n);
  const tokens = tk.encode('The answer is');
  const last = tokens.length - 1;
  const fwd = new Context(model).forward();
  fwd.input(tokens);
  const [hl, hd, he, h1] = [fwd.probe(last, Logits()), fwd.probe(last, Distribution(0.5, 0)), fwd.probe(0, Entropy()), fwd.probe(0, Logprob(tokens[1]))];
  const hs = fwd.sample([last], Sampler.argmax());
  const hm = fwd.sample([0, last], Sampler.argmax());
  const out = await fwd.execute();
  const logits = floats(out.logits(hl));
  const [ids, probs] = out.distribution(hd);
  if (ids.length !== logits.length) throw new Error('k = 0 is the whole vocabulary');
  if (Math.abs(probs.reduce((a, b) => a + b, 0) - 1) > 1e-2) throw new Error('sum');
  if (out.token(hs) !== argmax(logits) || out.tokensAt(hm)[1] !== argmax(logits)) throw new Error('argmax');
  if (!(out.entropy(he) >= 0) || !(out.logprobs(h1)[0] < 0)) throw new Error('probes');
  if (out.logits(hs) !== undefined || out.token(hl) !== undefined) throw new Error('mismatched access');
  return { plain: tk.decode(plain), other: tk.decode(other), done: chat.stopTokens(model).length > 0 };
}
