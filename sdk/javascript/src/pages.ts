/**
 * The pages of one context, as the SDK keeps them: reserved before a pass, committed after it.
 *
 * The counts are mirrored here, so that a step does not ask the engine for what it already knows; after
 * a failure they are read again.
 */
import type { Context as RawContext } from 'pie:core/context';
import { problem, repeat } from 'pie:plus/steps';

/** The number that `repeat` returns for a pass that failed. */
const FAILED = 0xffff_ffff;

export class Pages {
  /** The number of tokens in a page. */
  readonly size: number;
  readonly #context: RawContext;
  #committed = 0;
  #reserved = 0;
  #tokens = 0;

  constructor(context: RawContext) {
    this.#context = context;
    this.size = context.tokensPerPage();
    this.resync();
  }

  /** Tokens in the context, in committed and in working pages. */
  get length(): number {
    return this.#committed * this.size + this.#tokens;
  }

  /**
   * Runs the context's last step again, with the next token, and waits for it. Gives the token that it chose. The
   * context holds the input afterwards, and its full pages are committed.
   */
  repeatStep(token: number): number {
    if (this.#tokens >= this.#reserved * this.size) this.reserve(1);
    const chosen = repeat(this.#context, token);
    if (chosen === FAILED) {
      this.restore(this.length); // the token is counted below
      throw new Error(problem(this.#context) ?? 'the pass failed');
    }
    if (++this.#tokens >= this.size) this.commitFull();
    return chosen;
  }

  /** Makes room for `count` more tokens. */
  reserve(count: number): void {
    const wanted = Math.ceil((this.#tokens + count) / this.size) - this.#reserved;
    if (wanted <= 0) return;
    this.#context.reserveWorkingPages(wanted);
    this.#reserved += wanted;
  }

  /** Called when a pass with `count` input tokens was queued: the tokens have their slots. */
  filled(count: number): void {
    this.#tokens += count;
  }

  /** Forgets the last `count` tokens. Committed ones stay. */
  truncate(count: number): void {
    const forgotten = Math.min(count, this.#tokens);
    if (forgotten <= 0) return;
    this.#context.truncateWorkingPageTokens(forgotten);
    this.#tokens -= forgotten;
  }

  /**
   * Commits the working pages that are full without the last `heldBack` tokens, which may still be
   * forgotten.
   */
  commitFull(heldBack = 0): void {
    const full = Math.floor((this.#tokens - heldBack) / this.size);
    if (full <= 0) return;
    this.#context.commitWorkingPages(full);
    this.#committed += full;
    this.#reserved -= full;
    this.#tokens -= full * this.size;
  }

  /** After a pass that did not run: the context is `length` tokens long again. */
  restore(length: number): void {
    this.resync();
    this.truncate(this.length - length);
  }

  resync(): void {
    this.#committed = this.#context.committedPageCount();
    this.#reserved = this.#context.workingPageCount();
    this.#tokens = this.#context.workingPageTokenCount();
  }
}
