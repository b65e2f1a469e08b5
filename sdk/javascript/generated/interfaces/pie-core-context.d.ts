/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:core/context' {
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  
  export class Context implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    /**
    * An empty context.
    */
    static create(model: Model): Context;
    /**
    * A copy of a saved snapshot of this user.
    */
    static open(model: Model, name: string): Context;
    /**
    * Like `open`, and the snapshot is gone.
    */
    static take(model: Model, name: string): Context;
    /**
    * Remove a snapshot.
    */
    static 'delete'(model: Model, name: string): void;
    /**
    * A copy-on-write clone.
    */
    fork(): Context;
    /**
    * Keep the present state under a name; an older snapshot of that name is replaced.
    */
    save(name: string): void;
    /**
    * Keep it under a fresh name, which is returned.
    */
    snapshot(): string;
    /**
    * Give all pages back now. Any later use of the handle is an error.
    */
    destroy(): void;
    tokensPerPage(): number;
    model(): Model;
    committedPageCount(): number;
    workingPageCount(): number;
    /**
    * Tokens held in working pages, all of them together.
    */
    workingPageTokenCount(): number;
    /**
    * Make the first `n` working pages, which must be full, immutable and shareable.
    */
    commitWorkingPages(n: number): void;
    /**
    * Add `n` empty working pages.
    */
    reserveWorkingPages(n: number): void;
    /**
    * Give back the last `n` working pages with what they hold.
    */
    releaseWorkingPages(n: number): void;
    /**
    * Forget the last `n` tokens of the working pages.
    */
    truncateWorkingPageTokens(n: number): void;
    /**
    * Give the pages back until the next pass, which restores them.
    */
    suspend(): void;
    /**
    * What the next pass bids for a page.
    */
    bid(value: number): void;
    [Symbol.dispose](): void;
  }
}
