/** Cases about contexts, clones and snapshots. */
import { Context, Sampler } from 'inferlet';
import { contextWith, encode, loadModel, sameTokens, type Cases } from './case.ts';

export const contextCases: Cases = {
  context: async ({ text }) => {
    const model = loadModel();
    using ctx = new Context(model);
    ctx.append(encode(model, text));
    const buffered = ctx.buffer().length;
    const before = ctx.seqLen;
    await ctx.flush();
    const after = ctx.seqLen;
    ctx.truncate(2);
    return { page_size: ctx.pageSize, buffered, before, after, truncated: ctx.seqLen };
  },

  flush_empty: async () => {
    using ctx = new Context(loadModel());
    await ctx.flush();
    return { seq_len: ctx.seqLen };
  },

  turns: async ({ script }) => {
    let ctx = new Context(loadModel());
    const tokens: number[] = [];
    for (const step of script!) {
      if (step.do === 'system') ctx.system(step.text!);
      else if (step.do === 'user') ctx.user(step.text!);
      else if (step.do === 'assistant') ctx.assistant(step.text!);
      else if (step.do === 'tools') ctx.equipTools(step.tools!);
      else if (step.do === 'answer') ctx.answerTool(step.name!, step.text!);
      else if (step.do === 'calls') ctx.assistantCalls(step.text!, step.calls!);
      else if (step.do === 'answer_call') ctx.answerCall(step.calls![0]!, step.text!);
      else if (step.do === 'cue') ctx.cue();
      else if (step.do === 'seal') ctx.seal();
      else if (step.do === 'append') ctx.append(step.tokens!);
      else if (step.do === 'fork') ctx = ctx.fork();
      else {
        tokens.push(...ctx.buffer());
        await ctx.flush();
      }
    }
    return [...tokens, ...ctx.buffer()];
  },

  template_option: async ({ text = '', name = '', value }) => {
    const model = loadModel();
    const cued = (): number[] => {
      using ctx = new Context(model);
      return [...ctx.user(text).cue().buffer()];
    };
    const takes = (name: string, value: string | boolean): boolean => {
      try {
        model.templateOption(name, value);
        return true;
      } catch {
        return false;
      }
    };
    model.templateOption(name, value as string | boolean);
    const tokens = cued();
    model.templateOption(name, null);
    return {
      added: model.tokenizer().decode(tokens.slice(cued().length)),
      refused: !takes('messages', true),
      unknown: takes('no_such_variable', 'text'),
    };
  },

  cached_tokens: async ({ text }) => {
    const model = loadModel();
    using first = new Context(model);
    await first.append(encode(model, text)).flush();
    using second = new Context(model);
    const fresh = second.cachedTokens;
    await second.append(encode(model, text)).flush();
    using fork = second.fork();
    return { fresh, found: second.cachedTokens > 0, fork: fork.cachedTokens };
  },

  fork: async ({ prompt, max_tokens }) => {
    const model = loadModel();
    using parent = new Context(model);
    parent.user(prompt!);
    await parent.flush();
    using fork = parent.fork();
    const greedy = (ctx: Context): Promise<Uint32Array> =>
      ctx.generate(Sampler.argmax(), { maxTokens: max_tokens }).collectTokens();
    const [a, b] = await Promise.all([greedy(parent), greedy(fork)]);
    fork.append([97]);
    await fork.flush();
    return { same: sameTokens(a, b), parent_len: parent.seqLen, fork_len: fork.seqLen };
  },

  fork_parallel: async ({ prompt, n, max_tokens }) => {
    const model = loadModel();
    using parent = new Context(model);
    parent.user(prompt!);
    await parent.flush();
    return Promise.all(
      Array.from({ length: n! }, async (_, index) => {
        using ctx = parent.fork();
        ctx.append([97 + index]);
        const options = { maxTokens: max_tokens };
        return await ctx.generate(Sampler.argmax(), options).collectTokens();
      }),
    );
  },

  released: async ({ text }) => {
    const ctx = await contextWith(loadModel(), text);
    ctx.release();
    const uses: Record<string, () => unknown> = {
      fill: () => ctx.user(text!),
      flush: () => ctx.flush(),
      fork: () => ctx.fork(),
      save: () => ctx.save('released'),
      snapshot: () => ctx.snapshot(),
      truncate: () => ctx.truncate(1),
      bid: () => ctx.setBid(1),
      generate: () => ctx.generate(Sampler.argmax(), { maxTokens: 1 }).collectTokens(),
      forward: () => ctx.forward().input([97]).execute(),
    };
    const failed: string[] = [];
    for (const [name, use] of Object.entries(uses)) {
      try {
        await use();
      } catch (error) {
        if (String(error).includes('released')) failed.push(name);
      }
    }
    return failed;
  },

  save_open: async ({ name, text }) => {
    const model = loadModel();
    using ctx = await contextWith(model, text);
    ctx.save(name!);
    using copy = Context.open(model, name!)!;
    const same_len = ctx.seqLen === copy.seqLen;
    const same_token = (await nextToken(ctx)) === (await nextToken(copy));
    const missing = Context.open(model, `${name}-missing`) === undefined;
    using taken = Context.take(model, name!);
    const taken_missing = taken !== undefined && Context.open(model, name!) === undefined;
    const snapshot = ctx.snapshot();
    Context.delete(model, snapshot);
    return { same_len, same_token, missing, taken_missing, named: snapshot !== '' };
  },

  forgotten: async ({ n }) => {
    const model = loadModel();
    for (let i = 0; i < n!; i++) {
      await new Context(model).flush();
      if (i % 64 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
    }
    return n;
  },

  keep: async ({ name, text }) => {
    using ctx = await contextWith(loadModel(), text);
    ctx.save(name!);
    return ctx.seqLen;
  },

  open_named: ({ name }) => {
    using found = Context.open(loadModel(), name!);
    return found?.seqLen;
  },

  rollback: async ({ text, n }) => {
    const model = loadModel();
    const tokens = encode(model, text);
    using ctx = await contextWith(model, text);
    using fork = ctx.fork();
    const before = await nextToken(ctx);
    ctx.truncate(n!);
    const length = ctx.seqLen;
    await ctx.append(tokens.subarray(tokens.length - n!)).flush();
    return {
      length,
      same: ctx.seqLen === tokens.length && (await nextToken(ctx)) === before,
      fork_same: fork.seqLen === tokens.length && (await nextToken(fork)) === before,
    };
  },

  save_buffered: async ({ name, text }) => {
    const model = loadModel();
    const tokens = encode(model, text);
    using ctx = new Context(model);
    using whole = await contextWith(model, text);
    ctx.append(tokens).save(name!);
    using saved = Context.take(model, name!)!;
    const same = saved.seqLen === whole.seqLen && saved.buffer().length === 0;
    return {
      same: same && (await nextToken(saved)) === (await nextToken(whole)),
      untouched: ctx.seqLen === 0 && sameTokens(ctx.buffer(), tokens),
    };
  },
};

/** The token that greedily follows token 97. */
async function nextToken(ctx: Context): Promise<number | undefined> {
  const forward = ctx.forward();
  const at = ctx.seqLen;
  const handle = forward.inputAt([97], [at]).sample([0], Sampler.argmax());
  return (await forward.execute()).token(handle);
}

