/**
 * Answers questions about a document. The document is computed once and saved under a name. Later runs, also after a
 * restart of the engine, open the snapshot and compute nothing but the question.
 */
import { Context, Model, runtime, Sampler } from 'inferlet';

interface Input {
  document: string;
  name: string;
  question: string;
  max_tokens?: number;
}

interface Answer {
  answer: string;
  /** How many tokens were in the snapshot. */
  reused: number;
}

export async function main({ document, name, question, max_tokens: maxTokens = 128 }: Input): Promise<Answer> {
  const model = Model.load(runtime.models()[0]!);
  const saved = Context.open(model, name);
  using ctx = saved ?? new Context(model);
  const reused = ctx.seqLen;
  if (!saved) {
    await ctx.system(`Answer questions about this document.\n\n${document}`).flush();
    ctx.save(name);
  }
  const generator = ctx.user(question).generate(Sampler.argmax(), { maxTokens });
  return { answer: await generator.collectText(), reused };
}
