/**
 * Asks the same several times and returns the result that most of the answers agree on. What an answer thinks before
 * its last word does not count.
 */
import { Context, Model, runtime, Sampler } from 'inferlet';

interface Input {
  prompt: string;
  n?: number;
  max_tokens?: number;
}

interface Agreed {
  answer: string;
  votes: number;
}

/** The last word of a text, without punctuation. */
const resultOf = (text: string): string => text.match(/\w+/g)?.at(-1) ?? '';

export async function main({ prompt, n = 9, max_tokens: maxTokens = 128 }: Input): Promise<Agreed> {
  if (n < 1) throw new Error('n must be at least 1');
  const model = Model.load(runtime.models()[0]!);
  using prefix = new Context(model);
  prefix.system('Think step by step. The last word of your answer is the result.').user(prompt);
  await prefix.flush();

  const ask = async (): Promise<string> => {
    using ctx = prefix.fork();
    return await ctx.generate(Sampler.topP(0.8, 0.95), { maxTokens }).collectText();
  };
  const texts = await Promise.all(Array.from({ length: n }, ask));

  const votes = new Map<string, number>();
  for (const answer of texts.map(resultOf)) votes.set(answer, (votes.get(answer) ?? 0) + 1);
  const [answer, most] = [...votes].reduce((best, next) => (next[1] > best[1] ? next : best));
  return { answer, votes: most };
}
