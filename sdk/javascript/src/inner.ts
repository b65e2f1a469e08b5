/** The pages of a context, for passes and rollbacks of your own. */
import type { Context as Handle } from 'pie:core/context';
import { releaseWorkingPages, truncateWorkingPageTokens } from 'pie:plus/fallible';
import { whole } from './check.ts';
import type { Context } from './context.ts';

/** Page-level operations of a context: `ctx.inner()` gives it. The context stays usable beside it. */
export class RawContext {
  readonly #context: Context;

  /** @internal Use `ctx.inner()`. */
  constructor(context: Context) {
    this.#context = context;
  }

  /** Reserves `n` more working pages. Throws if there is no room for them. */
  reserveWorkingPages(n: number): void {
    this.#handle.reserveWorkingPages(whole('n', n));
    this.#context.pages.resync();
  }

  /** Commits the first `k` working pages, which must be full. Equal pages are shared then. */
  commitWorkingPages(k: number): void {
    this.#handle.commitWorkingPages(whole('k', k));
    this.#context.pages.resync();
  }

  /** Gives the last `n` working pages back. Throws if there are fewer. */
  releaseWorkingPages(n: number): void {
    releaseWorkingPages(this.#handle, whole('n', n));
    this.#context.pages.resync();
  }

  /** Drops the last `n` tokens. Throws if there are fewer. */
  truncateWorkingPageTokens(n: number): void {
    whole('n', n);
    this.#context.truncated();
    truncateWorkingPageTokens(this.#handle, n);
    this.#context.pages.resync();
  }

  /** How many pages are committed. */
  committedPageCount(): number {
    return this.#handle.committedPageCount();
  }

  /** How many working pages there are. */
  workingPageCount(): number {
    return this.#handle.workingPageCount();
  }

  /** How many tokens the working pages hold. */
  workingPageTokenCount(): number {
    return this.#handle.workingPageTokenCount();
  }

  get #handle(): Handle {
    return this.#context.raw;
  }
}
