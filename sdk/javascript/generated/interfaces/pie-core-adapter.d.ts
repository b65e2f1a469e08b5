/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:core/adapter' {
  export type Error = import('pie:core/types').Error;
  export type Model = import('pie:core/model').Model;
  
  export class Adapter implements Disposable {
    /**
     * This type does not have a public constructor.
     */
    private constructor();
    static create(model: Model, name: string): Adapter;
    static open(model: Model, name: string): Adapter | undefined;
    destroy(): void;
    fork(name: string): Adapter;
    load(path: string): void;
    save(path: string): void;
    [Symbol.dispose](): void;
  }
}
