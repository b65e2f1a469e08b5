import { concat } from './bytes.js';

/** A challenge with this prefix may be signed together with the hash of the server's certificate. */
const BINDS = new TextEncoder().encode('PIE-BIND');

/**
 * Returns what to sign for a challenge. Another server that passes the challenge on cannot use a
 * proof that names the certificate.
 */
export function bound(
  challenge: Uint8Array<ArrayBuffer>,
  certificateHash: Uint8Array | undefined,
): Uint8Array<ArrayBuffer> {
  const binds = BINDS.every((byte, at) => challenge[at] === byte);
  return binds && certificateHash ? concat(challenge, certificateHash) : challenge;
}
