// The part of DER that private keys need.
import { concat } from './bytes.js';

const SEQUENCE = 0x30;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT = 0x06;
const TAG_1 = 0xa1;

export const RSA = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
export const EC = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
export const ED25519 = [0x2b, 0x65, 0x70];
export const P256 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
export const P384 = [0x2b, 0x81, 0x04, 0x00, 0x22];

type Bytes = Uint8Array | number[];

function item(tag: number, ...parts: Bytes[]): Uint8Array<ArrayBuffer> {
  const content = concat(...parts);
  const size: number[] = [];
  for (let left = content.length; left > 0; left >>= 8) size.unshift(left & 0xff);
  const head = content.length < 128 ? [content.length] : [0x80 | size.length, ...size];
  return concat([tag, ...head], content);
}

function integer(value: bigint): Uint8Array {
  let hex = value.toString(16);
  if (hex.length % 2 === 1) hex = `0${hex}`;
  const bytes = (hex.match(/../g) ?? []).map((pair) => parseInt(pair, 16));
  return item(INTEGER, (bytes[0] ?? 0) & 0x80 ? [0] : [], bytes);
}

/** Wraps a key of an algorithm in PKCS#8. */
export function pkcs8(algorithm: number[], parameters: Bytes, key: Uint8Array) {
  const algorithmId = item(SEQUENCE, item(OBJECT, algorithm), parameters);
  return item(SEQUENCE, integer(0n), algorithmId, item(OCTET_STRING, key));
}
export const pkcs8Rsa = (key: Uint8Array) => pkcs8(RSA, [0x05, 0x00], key);
export const pkcs8Ec = (curve: Bytes, key: Uint8Array) => pkcs8(EC, item(OBJECT, curve), key);
export const pkcs8Ed25519 = (seed: Uint8Array) => pkcs8(ED25519, [], item(OCTET_STRING, seed));

/** Encodes an RSA key as PKCS#1. */
export function rsaKey(n: bigint, e: bigint, d: bigint, p: bigint, q: bigint, inverse: bigint) {
  const numbers = [0n, n, e, d, p, q, d % (p - 1n), d % (q - 1n), inverse];
  return item(SEQUENCE, ...numbers.map(integer));
}

/** Encodes an EC key as SEC1. */
export function ecKey(secret: Uint8Array, point: Uint8Array) {
  const publicPart = item(TAG_1, item(BIT_STRING, [0], point));
  return item(SEQUENCE, integer(1n), item(OCTET_STRING, secret), publicPart);
}

/** The object ids in the outer levels of a key, in hex. They name the algorithm and the curve. */
export function objectsIn(der: Uint8Array, depth = 0): string[] {
  const found: string[] = [];
  for (let at = 0; at + 2 <= der.length; ) {
    const tag = der[at] as number;
    let size = der[at + 1] as number;
    at += 2;
    if (size & 0x80) {
      const bytes = size & 0x7f;
      if (bytes > 4 || at + bytes > der.length) return found;
      size = der.subarray(at, at + bytes).reduce((sum, byte) => sum * 256 + byte, 0);
      at += bytes;
    }
    const content = der.subarray(at, at + size);
    if (tag === OBJECT) found.push(hex(content));
    else if ((tag === SEQUENCE || tag === 0xa0) && depth < 4) {
      found.push(...objectsIn(content, depth + 1));
    }
    at += size;
  }
  return found;
}

export const hex = (bytes: Bytes): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
