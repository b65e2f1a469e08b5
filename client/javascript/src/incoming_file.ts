import { IntegrityError } from './errors.js';
import { hashOf } from './hash.js';
import { MAX_INCOMING_BYTES } from './limits.js';

/** A file that arrives in chunks. */
export class IncomingFile {
  #chunks: Uint8Array[] = [];
  #size = 0;

  constructor(
    readonly hash: string,
    readonly total: number,
  ) {}

  /** Adds a chunk. Returns the whole file after its last chunk, or an error if a check fails. */
  add(index: number, total: number, data: Uint8Array): Uint8Array | IntegrityError | undefined {
    const due = this.#chunks.length;
    if (index !== due || total !== this.total) {
      const text = `received chunk ${index} of ${total} of a file, expected ${due} of ${this.total}`;
      return new IntegrityError(text);
    }
    this.#size += data.length;
    if (this.#size > MAX_INCOMING_BYTES) {
      return new IntegrityError(
        `the process sent a file over the limit of ${MAX_INCOMING_BYTES >> 20} MiB`,
      );
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
    const text = `the received file of ${this.#size} bytes does not match its hash ${this.hash}`;
    return new IntegrityError(text);
  }
}
