/** Private keys that prove a username. */
import { fromBase64 } from './bytes.js';
import { EC, ED25519, hex, objectsIn, P256, P384, pkcs8Ec, pkcs8Rsa, RSA } from './der.js';
import { KeyError } from './errors.js';
import { fromOpenSsh } from './openssh.js';

const LEAST_RSA_BITS = 2048;
const ACCEPTED =
  'use RSA (2048 bits or more), Ed25519 or ECDSA (P-256, P-384), as PEM or in OpenSSH\'s format';

interface Algorithm {
  kind: string;
  imported: { name: string; namedCurve?: string; hash?: string };
  signing: { name: string; hash?: string };
}
const rsa = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
const ecdsa = { name: 'ECDSA', hash: 'SHA-256' };
const ALGORITHMS: [number[][], Algorithm][] = [
  [[RSA], { kind: 'RSA', imported: rsa, signing: rsa }],
  [[ED25519], { kind: 'Ed25519', imported: { name: 'Ed25519' }, signing: { name: 'Ed25519' } }],
  [[EC, P256], { kind: 'ECDSA P-256', imported: { ...ecdsa, namedCurve: 'P-256' }, signing: ecdsa }],
  [[EC, P384], { kind: 'ECDSA P-384', imported: { ...ecdsa, namedCurve: 'P-384' }, signing: ecdsa }],
];

/** A private key. `parse` reads PEM (PKCS#8, PKCS#1, SEC1) and OpenSSH's format. */
export class ParsedPrivateKey {
  private constructor(
    /** `RSA`, `Ed25519`, `ECDSA P-256` or `ECDSA P-384`. */
    readonly kind: string,
    private readonly key: CryptoKey,
    private readonly signing: Algorithm['signing'],
  ) {}

  /** Parses the text of a key. Throws KeyError if it is not accepted. */
  static async parse(text: string): Promise<ParsedPrivateKey> {
    const der = toPkcs8(text);
    const objects = objectsIn(der);
    const found = ALGORITHMS.find(([path]) => path.every((oid, i) => objects[i] === hex(oid)));
    if (!found) throw new KeyError(`keys of this kind are not accepted: ${ACCEPTED}`);
    const { kind, imported, signing } = found[1];
    let key: CryptoKey;
    try {
      key = await crypto.subtle.importKey('pkcs8', der, imported, false, ['sign']);
    } catch (error) {
      throw new KeyError(`cannot read the private key (${String(error)}): ${ACCEPTED}`);
    }
    const bits = (key.algorithm as { modulusLength?: number }).modulusLength;
    if (bits !== undefined && bits < LEAST_RSA_BITS) {
      throw new KeyError(`an RSA key of ${bits} bits is too short: ${ACCEPTED}`);
    }
    return new ParsedPrivateKey(kind, key, signing);
  }

  /** The signature of a message, as the server expects it for this kind of key. */
  async sign(message: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
    return new Uint8Array(await crypto.subtle.sign(this.signing, this.key, message));
  }
}

function toPkcs8(text: string): Uint8Array<ArrayBuffer> {
  const found = /-----BEGIN ([A-Z0-9 ]+)-----([^-]*)-----END \1-----/.exec(text);
  if (!found) throw new KeyError(`the text is not a private key: ${ACCEPTED}`);
  const [, label, body = ''] = found;
  const bytes = fromBase64(body.replace(/\s+/g, ''));
  if (label === 'ENCRYPTED PRIVATE KEY' || body.includes('ENCRYPTED')) {
    throw new KeyError('the private key is encrypted: remove its passphrase first (ssh-keygen -p)');
  }
  if (!bytes) throw new KeyError(`the private key is not valid base64: ${ACCEPTED}`);
  switch (label) {
    case 'PRIVATE KEY':
      return bytes;
    case 'RSA PRIVATE KEY':
      return pkcs8Rsa(bytes);
    case 'EC PRIVATE KEY': {
      const curve = objectsIn(bytes)[0];
      const known = [P256, P384].find((oid) => hex(oid) === curve);
      if (!known) throw new KeyError(`keys of this curve are not accepted: ${ACCEPTED}`);
      return pkcs8Ec(known, bytes);
    }
    case 'OPENSSH PRIVATE KEY':
      return fromOpenSsh(bytes);
    default:
      throw new KeyError(`a ${label} is not accepted as a private key: ${ACCEPTED}`);
  }
}
