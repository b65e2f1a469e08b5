/// <reference path="./pie-core-adapter.d.ts" />
/// <reference path="./pie-core-model.d.ts" />
/// <reference path="./pie-core-types.d.ts" />
declare module 'pie:plus/adapters' {
  /**
   * Returns what `adapter.save` would write. Fails when the adapter has no weights.
   */
  export function exportFiles(adapter: Adapter): Files;
  /**
   * Does what `adapter.load` does with a folder of these files.
   */
  export function importFiles(adapter: Adapter, config: string, tensors: Blob): void;
  /**
   * `adapter.open`. Returns none if the name is absent, and fails when the adapter cannot be read.
   */
  export function open(model: Model, name: string): Adapter | undefined;
  /**
   * `adapter.fork`. Fails when the name is taken, or the user has too many adapters.
   */
  export function fork(adapter: Adapter, name: string): Adapter;
  /**
   * `adapter.destroy`. Fails when the file cannot be removed, or the adapter is destroyed already.
   */
  export function destroy(adapter: Adapter): void;
  /**
   * Returns the names of the user's adapters of the model, in alphabetical order.
   */
  export function names(model: Model): Array<string>;
  export type Error = import('pie:core/types').Error;
  export type Blob = import('pie:core/types').Blob;
  export type Model = import('pie:core/model').Model;
  export type Adapter = import('pie:core/adapter').Adapter;
  /**
   * The two files of a folder of the PEFT package.
   */
  export interface Files {
    /**
     * The text of `adapter_config.json`.
     */
    config: string,
    /**
     * The content of `adapter_model.safetensors`.
     */
    tensors: Blob,
  }
}
