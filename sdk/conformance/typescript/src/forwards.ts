/** Cases about single passes. */
import { allowOnly, Context, Distribution, Embedding, Entropy, Logits, Logprob, Logprobs, Sampler } from 'inferlet';
import { argmax, contextWith, encode, floats, loadModel, type Cases } from './case.ts';

export const forwardCases: Cases = {
  forward: async ({ text }) => {
    const model = loadModel();
    using ctx = new Context(model);
    const tokens = encode(model, text);
    const last = tokens.length - 1;
    const forward = ctx.forward().input(tokens);
    const sampled = forward.sample([last], Sampler.argmax());
    const logits = forward.probe(last, Logits());
    const distribution = forward.probe(last, Distribution(1.0, 5));
    const logprob = forward.probe(last, Logprob(97));
    const logprobs = forward.probe(last, Logprobs([97, 98]));
    const entropy = forward.probe(last, Entropy());
    const out = await forward.execute();
    const [ids, probs] = out.distribution(distribution)!;
    return {
      token: out.token(sampled),
      argmax: argmax(out.logits(logits)!),
      vocab: out.logits(logits)!.length / 4,
      ids,
      probs,
      logprob: out.logprobs(logprob)![0],
      logprobs: out.logprobs(logprobs),
      entropy: out.entropy(entropy),
      mismatch: out.token(entropy) === undefined,
    };
  },

  embedding: async ({ text }) => {
    const model = loadModel();
    using ctx = new Context(model);
    const tokens = encode(model, text);
    const last = tokens.length - 1;
    const forward = ctx.forward().input(tokens);
    const sampled = forward.sample([last], Sampler.embedding());
    const first = forward.probe(0, Embedding());
    const probed = forward.probe(last, Embedding());
    const out = await forward.execute();
    const numbers = floats(out.embedding(sampled)!);
    const read = (handle: typeof first): string => floats(out.embedding(handle)!).join();

    let steps = 0;
    using other = new Context(model);
    const g = other.user(text!).generate(Sampler.argmax(), { maxTokens: 3 });
    const handle = g.probeEachStep(0, Embedding());
    for await (const step of g) {
      const bytes = (await step.execute()).embedding(handle);
      if (bytes?.length === 4 * numbers.length) steps++;
    }
    let refused = false;
    try {
      other.generate(Sampler.embedding());
    } catch (error) {
      refused = error instanceof TypeError;
    }
    return {
      size: numbers.length,
      values: numbers.slice(0, 4),
      same: read(sampled) === read(probed),
      differs: read(first) !== read(probed),
      no_token: out.token(sampled) === undefined,
      steps,
      refused,
    };
  },

  forward_rows: async ({ text }) => {
    const model = loadModel();
    using ctx = new Context(model);
    const forward = ctx.forward().input(encode(model, text));
    const handle = forward.sample([0, 1, 2], Sampler.argmax());
    return (await forward.execute()).tokensAt(handle);
  },

  forward_empty: async () => {
    using ctx = new Context(loadModel());
    await ctx.forward().execute();
  },

  forward_mask: async ({ text, token }) => {
    const model = loadModel();
    using ctx = new Context(model);
    const tokens = encode(model, text);
    const forward = ctx.forward().input(tokens).mask(allowOnly([token!]));
    const handle = forward.sample([tokens.length - 1], Sampler.argmax());
    return (await forward.execute()).token(handle);
  },

  attention_mask: async ({ text }) => {
    const model = loadModel();
    const tokens = encode(model, text);
    const last = tokens.length - 1;
    const read = async (masks?: number[][]): Promise<Float32Array> => {
      using ctx = new Context(model);
      const forward = ctx.forward().input(tokens);
      if (masks) forward.attentionMask(masks);
      const logits = forward.probe(last, Logits());
      const entropy = forward.probe(last, Entropy());
      const out = await forward.execute();
      return Float32Array.of(...floats(out.logits(logits)!), out.entropy(entropy)!);
    };
    const equal = (a: Float32Array, b: Float32Array): boolean =>
      a.every((value, index) => value === b[index]);
    const rows = Array.from(tokens, (_, row) => [0, row + 1]);
    const plain = await read();
    const hidden = await read([...rows.slice(0, last), [last, 1]]);
    return { hidden_differs: !equal(plain, hidden), all_true_same: equal(plain, await read(rows)) };
  },

  input_at: async ({ text }) => {
    using ctx = await contextWith(loadModel(), text);
    const before = ctx.seqLen;
    const forward = ctx.forward().inputAt([97], [before]);
    forward.sample([0], Sampler.argmax());
    await forward.execute();
    return { advanced: ctx.seqLen - before };
  },

  draws: async ({ text, seed }) => {
    const model = loadModel();
    using ctx = new Context(model);
    const tokens = encode(model, text);
    const forward = ctx.forward().input(tokens).seed(seed!);
    const handle = forward.sample([tokens.length - 1], Sampler.multinomial(1.0, 4));
    const out = await forward.execute();
    const drawn = out.tokensAt(handle);
    return { count: drawn.length, first: out.token(handle) === drawn[0] };
  },
};
