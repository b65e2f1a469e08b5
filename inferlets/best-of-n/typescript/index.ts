/**
 * Draws several answers to one prompt and returns the likeliest. The prompt is computed once. One
 * pass over the tokens of an answer reads how likely each of them was.
 */
import { chat, Context, Logprob, Model, runtime, Sampler } from 'inferlet';

interface Input {
  prompt: string;
  n?: number;
  max_tokens?: number;
}

interface Answer {
  text: string;
  /** The mean log-probability of its tokens. */
  score: number;
}

async function draw(model: Model, prefix: Context, maxTokens: number): Promise<Answer> {
  using ctx = prefix.fork();
  const tokens = await ctx.generate(Sampler.topP(1, 0.95), { maxTokens }).collectTokens();

  const cue = chat.cue(model);
  using judge = prefix.fork();
  const pass = judge.forward().input(cue).input(tokens);
  // The last row of the cue predicts the first token.
  const probes = Array.from(tokens, (token, i) => pass.probe(cue.length - 1 + i, Logprob(token)));
  const out = await pass.execute();
  const sum = probes.reduce((total, probe) => total + out.logprobs(probe)![0]!, 0);
  return { text: model.tokenizer().decode(tokens), score: sum / Math.max(tokens.length, 1) };
}

export async function main({ prompt, n = 8, max_tokens: maxTokens = 64 }: Input): Promise<Answer> {
  if (n < 1) throw new Error('n must be at least 1');
  const model = Model.load(runtime.models()[0]!);
  using prefix = new Context(model);
  await prefix.user(prompt).flush();
  const answers = await Promise.all(Array.from({ length: n }, () => draw(model, prefix, maxTokens)));
  return answers.reduce((best, answer) => (answer.score > best.score ? answer : best));
}
