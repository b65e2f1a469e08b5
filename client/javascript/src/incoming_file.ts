import { IntegrityError } from './errors.js';
import { hashOf } from './hash.js';
import { MAX_INCOMING_BYTES } from './limits.js';

/** A file of which chunks come. */
export class IncomingFile {
  #chunks: Uint8Array[] = [];
  #size = 0;

  constructor(
    readonly hash: string,
    readonly total: number,
  ) {}

  /** The whole once its last chunk is there; a fault if it is not what it should be. */
  add(index: number, total: number, data: Uint8Array): Uint8Array | IntegrityError | undefined {
    const due = this.#chunks.length;
    if (index !== due || total !== this.total) {
      const text = `chunk ${index} of ${total} of a file came where ${due} of ${this.total} was due`;
      return new IntegrityError(text);
    }
    this.#size += data.length;
    if (this.#size > MAX_INCOMING_BYTES) {
      return new IntegrityError(`a file of more than ${MAX_INCOMING_BYTES >> 20} MiB came`);
    }
    this.#chunks.push(data.slice());
    return this.#chunks.length < this.total ? undefined : this.#whole();
  }

  #whole(): Uint8Array | IntegrityError {
    const whole = new Uint8Array(this.#size);
    let at = 0;
    for (const chunk of this.#chunks) {
      whole.set(chunk, at);
      at += chunk.length;
    }
    if (hashOf(whole) === this.hash) return whole;
    const text = `a file of ${this.#size} bytes came that does not have its hash ${this.hash}`;
    return new IntegrityError(text);
  }
}
