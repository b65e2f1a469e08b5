/** Cases about the runtime, models, tokenizers and chat templates. */
import {
  chat,
  reasoning,
  runtime,
  scheduling,
  tools,
  Context,
  mcp,
} from 'inferlet';
import { asText, encode, failureOf, loadModel, type Cases, type Input } from './case.ts';

/** The tokens that a decoder is fed: the batches, or else one token at a time. */
function fed({ batches, tokens }: Input): number[][] {
  return batches ?? tokens!.map((token) => [token]);
}

export const modelCases: Cases = {
  echo: ({ value }) => value,

  print: ({ texts }) => {
    for (const text of texts!) console.log(text);
    return texts!.length;
  },

  runtime: () => ({
    models: runtime.models(),
    username: runtime.username(),
    version: runtime.version() !== '',
    instance_id: runtime.instanceId() !== '',
  }),

  tokenizer: ({ text }) => {
    const tokenizer = loadModel().tokenizer();
    const tokens = tokenizer.encode(text!);
    return { tokens, text: tokenizer.decode(tokens) };
  },

  decode_special: () => {
    const model = loadModel();
    const cue = chat.cue(model);
    const without = model.tokenizer().decode(cue, { skipSpecialTokens: true });
    return { cue: model.tokenizer().decode(cue), without };
  },

  tokenizer_bad: ({ tokens }) => loadModel().tokenizer().decode(tokens!),

  vocab: () => {
    const model = loadModel();
    const tokenizer = model.tokenizer();
    const [ids, bytes] = tokenizer.vocabs();
    const [, names] = tokenizer.specialTokens();
    return {
      count: ids.length,
      dense: ids.every((id, index) => id === index),
      a: asText(bytes[encode(model, 'a')[0]!]!),
      special: names.map(asText).sort(),
      split_regex: tokenizer.splitRegex(),
    };
  },

  chat_tokens: ({ system, user, assistant }) => {
    const model = loadModel();
    return {
      system: chat.system(model, system!),
      user: chat.user(model, user!),
      assistant: chat.assistant(model, assistant!),
      cue: chat.cue(model),
      seal: chat.seal(model),
      stop: chat.stopTokens(model),
    };
  },

  chat_decoder: (input) => {
    using decoder = new chat.Decoder(loadModel());
    return fed(input).map((batch) => {
      const event = decoder.feed(batch);
      if (event.type === 'idle') return [event.type, null];
      return [event.type, event.type === 'interrupt' ? event.token : event.text];
    });
  },

  reasoning_decoder: (input) => {
    using decoder = new reasoning.Decoder(loadModel());
    return fed(input).map((batch) => {
      const event = decoder.feed(batch);
      return [event.type, 'text' in event ? event.text : null];
    });
  },

  tool_decoder: (input) => {
    using decoder = new tools.Decoder(loadModel());
    return fed(input).map((batch) => {
      const event = decoder.feed(batch);
      return event.type === 'call' ? ['call', event.name, event.args] : [event.type];
    });
  },

  scheduling: () => {
    const model = loadModel();
    using ctx = new Context(model);
    return {
      price: Number.isFinite(scheduling.price()),
      rent: Number.isFinite(scheduling.rent(ctx)),
      dividend: Number.isFinite(scheduling.dividend(model)),
      latency: Number.isFinite(scheduling.latency(ctx)),
      balance: Number.isFinite(scheduling.balance(model)),
    };
  },

  unavailable: async () => {
    return {
      mcp: (await failureOf(() => mcp.connect('none'))) !== '',
    };
  },
};
