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
    * Creates an empty context.
    */
    static create(model: Model): Context;
    /**
    * Returns a copy of a snapshot of this user.
    */
    static open(model: Model, name: string): Context;
    /**
    * Does the same as `open` and deletes the snapshot.
    */
    static take(model: Model, name: string): Context;
    /**
    * Deletes a snapshot.
    */
    static 'delete'(model: Model, name: string): void;
    /**
    * Returns a copy-on-write clone.
    */
    fork(): Context;
    /**
    * Saves the context under a name and replaces an older snapshot of that name.
    */
    save(name: string): void;
    /**
    * Saves the context under a fresh name and returns the name.
    */
    snapshot(): string;
    /**
    * Gives all pages back now. Any later use of the handle is an error.
    */
    destroy(): void;
    tokensPerPage(): number;
    model(): Model;
    committedPageCount(): number;
    workingPageCount(): number;
    /**
    * The number of tokens in all working pages together.
    */
    workingPageTokenCount(): number;
    /**
    * Commits the first `n` working pages, which must be full.
    */
    commitWorkingPages(n: number): void;
    /**
    * Adds `n` empty working pages.
    */
    reserveWorkingPages(n: number): void;
    /**
    * Releases the last `n` working pages and their tokens.
    */
    releaseWorkingPages(n: number): void;
    /**
    * Drops the last `n` tokens of the working pages.
    */
    truncateWorkingPageTokens(n: number): void;
    /**
    * Gives the pages back. The next pass restores them.
    */
    suspend(): void;
    /**
    * Sets the bid for a page, in credits.
    */
    bid(value: number): void;
    [Symbol.dispose](): void;
  }
}
