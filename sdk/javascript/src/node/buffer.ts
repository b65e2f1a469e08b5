/** `node:buffer`: bytes that can be made from texts and shown as texts. */

/** How a text stands for bytes. */
export type Encoding = 'utf8' | 'utf-8' | 'hex' | 'base64' | 'base64url' | 'latin1' | 'binary' | 'ascii';

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function toBase64(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const [a, b, c] = [bytes[at]!, bytes[at + 1], bytes[at + 2]];
    text += DIGITS[a >> 2]! + DIGITS[((a & 3) << 4) | ((b ?? 0) >> 4)]!;
    text += b === undefined ? '=' : DIGITS[((b & 15) << 2) | ((c ?? 0) >> 6)]!;
    text += c === undefined ? '=' : DIGITS[c & 63]!;
  }
  return text;
}

/** Takes both alphabets, leaves out what is no digit, and ends at `=`, as Node does. */
function fromBase64(text: string): number[] {
  const bytes: number[] = [];
  let bits = 0;
  let count = 0;
  for (const character of text.replaceAll('-', '+').replaceAll('_', '/')) {
    if (character === '=') break;
    const digit = DIGITS.indexOf(character);
    if (digit < 0) continue;
    bits = ((bits << 6) | digit) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push((bits >> count) & 255);
  }
  return bytes;
}

/** Ends at the first pair that is not a number, as Node does. */
function fromHex(text: string): number[] {
  const bytes: number[] = [];
  for (const [pair] of text.matchAll(/../gs)) {
    if (!/^[0-9a-f]{2}$/i.test(pair)) break;
    bytes.push(parseInt(pair, 16));
  }
  return bytes;
}

function encoded(text: string, encoding: string): ArrayLike<number> {
  switch (encoding.toLowerCase()) {
    case 'utf8':
    case 'utf-8':
      return new TextEncoder().encode(text);
    case 'hex':
      return fromHex(text);
    case 'base64':
    case 'base64url':
      return fromBase64(text);
    case 'latin1':
    case 'binary':
    case 'ascii':
      return Array.from({ length: text.length }, (_, at) => text.charCodeAt(at) & 255);
  }
  throw unknown(encoding);
}

function unknown(encoding: string): TypeError {
  return new TypeError(`unknown encoding: ${encoding}; known are utf8, hex, base64, base64url, latin1 and ascii`);
}

const bare = (characters: string[]): string => characters.join('');

class Bytes extends Uint8Array<ArrayBuffer> {
  /** The text that the bytes from `start` to `end` stand for. */
  override toString(encoding: string = 'utf8', start = 0, end = this.length): string {
    const bytes = Uint8Array.prototype.slice.call(this, Math.max(0, start), Math.max(0, end));
    switch (encoding.toLowerCase()) {
      case 'utf8':
      case 'utf-8':
        return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
      case 'hex':
        return bare(Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')));
      case 'base64':
        return toBase64(bytes);
      case 'base64url':
        return toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
      case 'latin1':
      case 'binary':
        return bare(Array.from(bytes, (byte) => String.fromCharCode(byte)));
      case 'ascii':
        return bare(Array.from(bytes, (byte) => String.fromCharCode(byte & 127)));
    }
    throw unknown(encoding);
  }

  /** Whether the bytes are the same. */
  equals(other: Uint8Array): boolean {
    return this.length === other.length && this.every((byte, at) => byte === other[at]);
  }

  /** Another view of the same bytes, as `subarray`; a Uint8Array's own `slice` copies them. */
  override slice(start?: number, end?: number): this {
    return this.subarray(start, end) as this;
  }

  /** The object that JSON.stringify writes. */
  toJSON(): { type: 'Buffer'; data: number[] } {
    return { type: 'Buffer', data: Array.from(this) };
  }
}

/** Bytes: a Uint8Array that knows texts. */
export type Buffer = Bytes;

/** The functions that make buffers. Like Node's, `Buffer` itself is for `instanceof`. */
export interface BufferConstructor {
  readonly prototype: Buffer;
  [Symbol.hasInstance](value: unknown): boolean;
  /** The bytes of a text, or a copy of bytes. An ArrayBuffer is not copied. */
  from(value: string, encoding?: Encoding): Buffer;
  from(value: ArrayBuffer, byteOffset?: number, length?: number): Buffer;
  from(value: Iterable<number> | ArrayLike<number>): Buffer;
  /** `size` bytes, which are all `fill`. */
  alloc(size: number, fill?: number): Buffer;
  /** The bytes of all parts, cut or filled up with zeros to `length` if it is given. */
  concat(parts: readonly Uint8Array[], length?: number): Buffer;
  /** Whether the value is a Buffer. */
  isBuffer(value: unknown): value is Buffer;
  /** How many bytes a text has. */
  byteLength(value: string | ArrayBufferView | ArrayBuffer, encoding?: Encoding): number;
}

/** The constructor of a Uint8Array, which makes a Buffer here. */
function made(source: number | ArrayLike<number> | ArrayBuffer, byteOffset?: number, length?: number): Buffer {
  const make = Bytes as unknown as new (...given: unknown[]) => Buffer;
  return source instanceof ArrayBuffer ? new make(source, byteOffset, length) : new make(source);
}

function from(value: unknown, second?: Encoding | number, length?: number): Buffer {
  if (typeof value === 'string') return made(encoded(value, (second as Encoding) ?? 'utf8'));
  if (value instanceof ArrayBuffer) return made(value, second as number | undefined, length);
  if (typeof value === 'object' && value !== null) return made(Uint8Array.from(value as ArrayLike<number>));
  throw new TypeError(`Buffer.from takes a string, bytes or numbers, not ${String(value)}`);
}

function concat(parts: readonly Uint8Array[], length?: number): Buffer {
  const whole = made(length ?? parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    if (at >= whole.length) break;
    whole.set(part.subarray(0, whole.length - at), at);
    at += part.length;
  }
  return whole;
}

function byteLength(value: string | ArrayBufferView | ArrayBuffer, encoding: Encoding = 'utf8'): number {
  return typeof value === 'string' ? encoded(value, encoding).length : value.byteLength;
}

export const Buffer: BufferConstructor = Object.assign(Bytes as unknown as BufferConstructor, {
  from,
  alloc: (size: number, fill = 0): Buffer => {
    const bytes = made(size);
    bytes.fill(fill);
    return bytes;
  },
  concat,
  isBuffer: (value: unknown): value is Buffer => value instanceof Bytes,
  byteLength,
});

export default { Buffer };
