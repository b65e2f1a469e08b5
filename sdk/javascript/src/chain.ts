/**
 * A generation run to its end, in batches of accepted tokens.
 *
 * Where it can, the engine runs the loop by itself (`Chained`): it feeds each chosen token into the next
 * pass, and wakes the program for several tokens at once. The tokens, and the context after each batch,
 * are the same as in the loop over steps.
 */
import type { Chain } from 'pie:plus/chains';
import type { Context } from './context.ts';
import { startChain, type PassPlan } from './pass.ts';
import { ready } from './reactor.ts';

const U32_MAX = 0xffff_ffff;

export interface Batches extends Disposable {
  /** The tokens accepted since the last call; undefined at the end. */
  next(): Promise<Uint32Array | undefined>;
}

export interface ChainRule {
  /** Tokens to choose at most. */
  readonly limit: number;
  /** Ids that end the chain; the last token may be one of them. */
  readonly stops: Uint32Array;
  /**
   * Takes over the tokens that the engine chose, and gives those that are accepted. The engine has computed
   * all of them but the last.
   */
  readonly accept: (chosen: Uint32Array) => Uint32Array;
  /** A matcher allows no further token. */
  readonly complete: () => void;
}

export class Chained implements Batches {
  readonly #context: Context;
  readonly #chain: Chain;
  readonly #rule: ChainRule;
  /** The context's length before the chain; undefined once a token was taken. */
  #before: number | undefined;
  #ended = false;

  /**
   * Undefined where the engine refuses the chain. The configuration may have switched chains off;
   * for any other reason, a single pass fails as well and reports it.
   */
  static start(context: Context, plan: PassPlan, rule: ChainRule): Chained | undefined {
    const before = context.pages.length;
    const limit = Math.min(rule.limit, U32_MAX);
    try {
      return new Chained(context, startChain(context, plan, limit, rule.stops), rule, before);
    } catch {
      return undefined;
    }
  }

  private constructor(context: Context, chain: Chain, rule: ChainRule, before: number) {
    this.#context = context;
    this.#chain = chain;
    this.#rule = rule;
    this.#before = before;
  }

  async next(): Promise<Uint32Array | undefined> {
    while (!this.#ended) {
      const { tokens, ended } = this.#chain.take();
      this.#ended = ended !== undefined;
      if (ended === 'complete') this.#rule.complete();
      if (tokens.length > 0) {
        this.#before = undefined;
        this.#context.pages.resync();
        return this.#rule.accept(tokens);
      }
      if (ended === 'cancelled') {
        throw new Error('the generation was cancelled: its context was used for another pass');
      }
      if (ended === undefined) await this.#wait();
    }
    return undefined;
  }

  async #wait(): Promise<void> {
    await ready(this.#chain.pollable());
    if (!this.#context.released) return;
    throw new Error(
      'the context was released during the generation. ' +
        'Where the context is declared with `using`, write `return await …`, not `return …`',
    );
  }

  /** Ends the chain. The context forgets the tokens that were not taken. */
  [Symbol.dispose](): void {
    this.#chain[Symbol.dispose]();
    if (this.#context.released) return;
    if (this.#before === undefined) this.#context.pages.resync();
    else this.#context.pages.restore(this.#before);
  }
}
