/**
 * A generation that the engine runs by itself: it feeds its own tokens forward, and wakes the program
 * for several at once. The tokens, and the context at every moment, are those of the loop over steps.
 */
import type { Chain } from 'pie:plus/chains';
import type { Context } from './context.ts';
import { startChain, type PassPlan } from './pass.ts';
import { ready } from './reactor.ts';

const U32_MAX = 0xffff_ffff;

export interface ChainRule {
  /** Tokens to choose at most. */
  readonly limit: number;
  /** Ids that end it; the last token may be one of them. */
  readonly stops: Uint32Array;
}

export class Chained implements Disposable {
  readonly #context: Context;
  readonly #chain: Chain;
  /** The context's length before, until a token was taken. */
  #before: number | undefined;
  #ended = false;

  constructor(context: Context, plan: PassPlan, rule: ChainRule) {
    this.#context = context;
    this.#before = context.pages.length;
    this.#chain = startChain(context, plan, Math.min(rule.limit, U32_MAX), rule.stops);
  }

  /** No tokens follow those that were given last. */
  get ended(): boolean {
    return this.#ended;
  }

  /** What was chosen since the last call: all computed but the last. Undefined at the end. */
  async next(): Promise<Uint32Array | undefined> {
    while (!this.#ended) {
      const { tokens, ended } = this.#chain.take();
      this.#ended = ended !== undefined;
      if (tokens.length > 0) {
        this.#before = undefined;
        this.#context.pages.resync();
        return tokens;
      }
      if (ended === 'cancelled') {
        throw new Error('the context was used for something else while it generated');
      }
      if (ended === undefined) await this.#wait();
    }
    return undefined;
  }

  async #wait(): Promise<void> {
    await ready(this.#chain.pollable());
    if (!this.#context.released) return;
    throw new Error(
      'the context was released while it generated. ' +
        'Where it is declared with `using`, write `return await …`, not `return …`',
    );
  }

  /** Ends it. The context forgets what was not taken. */
  [Symbol.dispose](): void {
    this.#chain[Symbol.dispose]();
    if (this.#context.released) return;
    if (this.#before === undefined) this.#context.pages.resync();
    else this.#context.pages.restore(this.#before);
  }
}
