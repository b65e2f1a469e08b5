import { blake3 } from '@noble/hashes/blake3.js';

/** The blake3 hash of bytes, in hex. */
export function hashOf(data: Uint8Array): string {
  return Array.from(blake3(data), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
