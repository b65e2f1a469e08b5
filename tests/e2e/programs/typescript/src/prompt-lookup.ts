import { Context, Model, Sampler, runtime } from 'inferlet';
import type { Speculator } from 'inferlet';

class PromptLookup implements Speculator {
  drafted = 0; accepted = 0; rolledBack = 0; resets = 0;
  private history: number[];
  constructor(private readonly prompt: Uint32Array, private readonly ngram = 2, private readonly width = 4) {
    this.history = [...prompt];
  }
  draft(): [Uint32Array, Uint32Array] {
    const tail = this.history.slice(-this.ngram).join();
    for (let i = 0; i + this.ngram < this.history.length; i++) {
      if (this.history.slice(i, i + this.ngram).join() !== tail) continue;
      const tokens = Uint32Array.from(this.history.slice(i + this.ngram, i + this.ngram + this.width));
      this.drafted += tokens.length;
      return [tokens, tokens.map((_, k) => this.history.length + k)];
    }
    return [new Uint32Array(), new Uint32Array()];
  }
  accept(tokens: Uint32Array): void { this.accepted += tokens.length; this.history.push(...tokens); }
  rollback(n: number): void { this.rolledBack += n; }
  reset(): void { this.history = [...this.prompt]; this.resets++; }
}

export async function main(input: { maxTokens?: number }) {
  const maxTokens = input.maxTokens ?? 20;
  const model = Model.load(runtime.models()[0]!);
  const fresh = () => new Context(model).system('Repeat.').user('one two three one two three one').cue();
  const run = async (options: object): Promise<number[]> => {
    using ctx = fresh();
    const g = ctx.generate(Sampler.argmax(), { maxTokens, autoFlush: false, ...options });
    const tokens = await g.collectTokens();
    if (!g.isDone || g.tokensGenerated !== tokens.length) throw new Error('inspection');
    return [...tokens];
  };
  const prompt = fresh().buffer();
  const spec = new PromptLookup(prompt);
  const junk: Speculator = {
    draft: () => [Uint32Array.of(1, 2, 3), Uint32Array.of(prompt.length, prompt.length + 1, prompt.length + 2)],
    accept() {}, rollback() {}, reset() {},
  };
  const plain = await run({});
  const looked = await run({ speculator: spec });
  const ngram = await run({ systemSpeculation: true });
  if (plain.join() !== looked.join() || plain.join() !== ngram.join()) throw new Error(`${plain} | ${looked} | ${ngram}`);
  let refused = '';
  try { fresh().generate(Sampler.argmax(), { speculator: spec, systemSpeculation: true }); }
  catch (e) { refused = (e as Error).message; }
  if (!refused) throw new Error('mutually exclusive');
  void junk;
  return { n: plain.length, drafted: spec.drafted, accepted: spec.accepted, rolledBack: spec.rolledBack, refused };
}
