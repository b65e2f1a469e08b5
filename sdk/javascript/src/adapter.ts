/** LoRA adapters of a model. */
import { Adapter as RawAdapter } from 'pie:core/adapter';
import type { Model } from './model.ts';

export class Adapter implements Disposable {
  /** @internal */ readonly raw: RawAdapter;

  private constructor(raw: RawAdapter) {
    this.raw = raw;
  }

  static create(model: Model, name: string): Adapter {
    return new Adapter(RawAdapter.create(model.raw, name));
  }

  /** An existing one; undefined where there is none. */
  static open(model: Model, name: string): Adapter | undefined {
    const raw = RawAdapter.open(model.raw, name);
    return raw && new Adapter(raw);
  }

  /** A copy under a new name. */
  fork(newName: string): Adapter {
    return new Adapter(this.raw.fork(newName));
  }

  /** Writes the weights as a folder of the PEFT package, below /scratch or /data. */
  save(path: string): void {
    this.raw.save(path);
  }

  /** Reads a folder of the PEFT package, below /scratch or /data. */
  load(path: string): void {
    this.raw.load(path);
  }

  /** Removes the adapter from the engine. */
  destroy(): void {
    this.raw.destroy();
  }

  [Symbol.dispose](): void {
    this.raw[Symbol.dispose]();
  }
}
