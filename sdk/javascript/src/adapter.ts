/** LoRA adapters of a model. */
import { Adapter as RawAdapter } from 'pie:core/adapter';
import * as adapters from 'pie:plus/adapters';
import { AdapterBase } from './adapter_check.ts';
import { bytes, text } from './check.ts';
import { rawOf, type Model } from './model.ts';

/** The two files of a folder of the PEFT package. */
export interface AdapterFiles {
  /** The text of adapter_config.json. */
  readonly config: string;
  /** The content of adapter_model.safetensors. */
  readonly tensors: Uint8Array;
}

/** A LoRA adapter of a model. */
export class Adapter extends AdapterBase implements Disposable {
  /** @internal */ readonly raw: RawAdapter;

  private constructor(raw: RawAdapter) {
    super();
    this.raw = raw;
  }

  /** A new adapter without weights. Throws if the user has one of that name. */
  static create(model: Model, name: string): Adapter {
    return new Adapter(RawAdapter.create(rawOf(model), text('name', name)));
  }

  /** An existing one; undefined where there is none. Throws if it cannot be read. */
  static open(model: Model, name: string): Adapter | undefined {
    const raw = adapters.open(rawOf(model), text('name', name));
    return raw && new Adapter(raw);
  }

  /** The names of your adapters of the model, in alphabetical order. */
  static names(model: Model): string[] {
    return adapters.names(rawOf(model));
  }

  /** A copy under a new name. Throws if the name is taken. */
  fork(newName: string): Adapter {
    return new Adapter(adapters.fork(this.raw, text('newName', newName)));
  }

  /** Writes the weights as a folder of the PEFT package, below /scratch or /data. */
  save(path: string): void {
    this.raw.save(text('path', path));
  }

  /** Reads a folder of the PEFT package, below /scratch or /data. */
  load(path: string): void {
    this.raw.load(text('path', path));
  }

  /** The files that `save` would write, to send them to the client. */
  export(): AdapterFiles {
    return adapters.exportFiles(this.raw);
  }

  /** Does what `load` does, with files that a client has sent. */
  import(config: string, tensors: Uint8Array): void {
    adapters.importFiles(this.raw, text('config', config), bytes('tensors', tensors));
  }

  /** Removes the adapter from the engine, even if other inferlets have it open. */
  destroy(): void {
    adapters.destroy(this.raw);
  }

  /** Releases this handle of the adapter. The adapter stays in the engine. */
  [Symbol.dispose](): void {
    this.raw[Symbol.dispose]();
  }
}
