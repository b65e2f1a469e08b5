/** Guesses ahead with the words of the prompt: what followed the last token there may follow it again. */
import { Context, Model, runtime, Sampler, type Speculator } from 'inferlet';

interface Input {
  prompt: string;
  max_tokens?: number;
}

class Lookup implements Speculator {
  /** The prompt, and the answer so far. */
  readonly #text: number[];

  constructor(prompt: Uint32Array) {
    this.#text = [...prompt];
  }

  draft(): [Uint32Array, Uint32Array] {
    const last = this.#text.length - 1;
    const found = last > 0 ? this.#text.lastIndexOf(this.#text[last]!, last - 1) : -1;
    const drafts = found < 0 ? [] : this.#text.slice(found + 1, Math.min(found + 5, last));
    return [Uint32Array.from(drafts), new Uint32Array()]; // after the sequence
  }

  accept(tokens: Uint32Array): void {
    this.#text.push(...tokens);
  }

  rollback(): void {}

  reset(): void {}
}

export async function main({ prompt, max_tokens = 64 }: Input): Promise<string> {
  const model = Model.load(runtime.models()[0]!);
  using ctx = new Context(model);
  ctx.user(prompt).cue();
  const speculator = new Lookup(ctx.buffer());
  const options = { speculator, maxTokens: max_tokens, autoFlush: false };
  return await ctx.generate(Sampler.argmax(), options).collectText();
}
