/** A loaded model, and its tokenizer. */
import { Model as RawModel, type Tokenizer as RawTokenizer } from 'pie:core/model';
import { encode } from 'pie:plus/fallible';
import { setOption } from 'pie:plus/templates';
import * as check from './check.ts';
import { toU32, type Tokens } from './tokens.ts';

/** A model that the engine has loaded. */
export class Model implements Disposable {
  /** @internal */ readonly raw: RawModel;
  #tokenizer: Tokenizer | undefined;

  private constructor(raw: RawModel) {
    this.raw = raw;
  }

  /** Binds to a model that the engine has loaded (see `runtime.models()`). */
  static load(name: string): Model {
    return new Model(RawModel.load(check.text('name', name)));
  }

  /** The model's tokenizer; every call gives the same one. */
  tokenizer(): Tokenizer {
    return (this.#tokenizer ??= new Tokenizer(this.raw.tokenizer()));
  }

  /**
   * Sets a variable of the model's chat template, such as `enable_thinking`; null removes it. It counts for all
   * turns that are written and all decoders that are made with this model from now on; what is written already
   * stays. A variable that the template does not read has no effect. Throws on variables that the engine sets
   * itself, and on values that the template refuses.
   */
  templateOption(name: string, value: string | boolean | number | null): void {
    if (value !== null && !['string', 'boolean', 'number'].includes(typeof value)) {
      throw new TypeError(`value must be a string, boolean, number or null, not ${check.kind(value)}`);
    }
    setOption(this.raw, check.text('name', name), value === null ? undefined : JSON.stringify(value));
  }

  /** Gives the handle back; the model stays loaded. `using` calls it. */
  [Symbol.dispose](): void {
    this.#tokenizer?.raw[Symbol.dispose]();
    this.raw[Symbol.dispose]();
  }
}

/** @internal The engine's handle of an argument that must be a model. */
export function rawOf(model: Model): RawModel {
  if (model instanceof Model) return model.raw;
  throw new TypeError(`model must be a Model (Model.load()), not ${check.kind(model)}`);
}

/** Text to token ids and back. */
export class Tokenizer {
  /** @internal */ readonly raw: RawTokenizer;
  #special: Set<number> | undefined;

  /** @internal Use `model.tokenizer()`. */
  constructor(raw: RawTokenizer) {
    this.raw = raw;
  }

  /** Text to token ids. */
  encode(text: string): Uint32Array {
    return encode(this.raw, check.text('text', text));
  }

  /**
   * Token ids to text. Special tokens become their names, or are left out. Throws on an id outside the
   * vocabulary.
   */
  decode(tokens: Tokens, options: { skipSpecialTokens?: boolean } = {}): string {
    const ids = toU32(tokens);
    if (!options.skipSpecialTokens) return this.raw.decode(ids);
    const special = (this.#special ??= new Set(this.raw.specialTokens()[0]));
    return this.raw.decode(ids.filter((id) => !special.has(id)));
  }

  /** Every token id with its bytes, as parallel arrays. */
  vocabs(): [Uint32Array, Uint8Array[]] {
    return this.raw.vocabs();
  }

  /** The ids that stand for no text of their own, with their names. */
  specialTokens(): [Uint32Array, Uint8Array[]] {
    return this.raw.specialTokens();
  }

  /** The regular expression that splits text before merges apply. */
  splitRegex(): string {
    return this.raw.splitRegex();
  }
}
