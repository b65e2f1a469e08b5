/** How a token is chosen at an output row. Temperature 0 is greedy for every sampler. */
import type { Sampler as RawSampler } from 'pie:core/inference';
import { instance, share, temperature as heat, whole } from './check.ts';

/** Chooses a token at a row. */
export class Sampler {
  /** @internal */ readonly raw: RawSampler;
  /** @internal Tokens that it gives per row. */ readonly draws: number;

  private constructor(raw: RawSampler, draws = 1) {
    this.raw = raw;
    this.draws = draws;
  }

  /** The likeliest token. */
  static argmax(): Sampler {
    return new Sampler({ tag: 'top-k', val: [0, 1] });
  }

  /** The smallest set of likeliest tokens whose probabilities reach `p`. */
  static topP(temperature: number, p: number): Sampler {
    return new Sampler({ tag: 'top-p', val: [heat(temperature), share('p', p)] });
  }

  /** One of the `k` likeliest tokens. */
  static topK(temperature: number, k: number): Sampler {
    return new Sampler({ tag: 'top-k', val: [heat(temperature), whole('k', k)] });
  }

  /** Tokens at least `p` times as likely as the likeliest. */
  static minP(temperature: number, p: number): Sampler {
    return new Sampler({ tag: 'min-p', val: [heat(temperature), share('p', p)] });
  }

  /** Top-k first, then nucleus. */
  static topKTopP(temperature: number, k: number, p: number): Sampler {
    const val: [number, number, number] = [heat(temperature), whole('k', k), share('p', p)];
    return new Sampler({ tag: 'top-k-top-p', val });
  }

  /** `draws` independent draws at each row. */
  static multinomial(temperature: number, draws: number): Sampler {
    const val: [number, number] = [heat(temperature), whole('draws', draws)];
    return new Sampler({ tag: 'multinomial', val }, Math.max(1, draws));
  }

  /**
   * The hidden state of the row after the model's last norm, instead of a token: `out.embedding(h)`. The probe
   * `Embedding()` reads the same.
   */
  static embedding(): Sampler {
    return new Sampler({ tag: 'embedding' });
  }

  /** @internal Whether it chooses tokens. */
  get chooses(): boolean {
    return this.raw.tag !== 'embedding';
  }
}

/** @internal Throws where the value is something else, such as the name of a sampler. */
export function checkSampler(value: unknown): void {
  instance('sampler', value, Sampler, 'Sampler.topP() and others');
}
