// Converts a private key in OpenSSH's format to PKCS#8.
import { ecKey, P256, P384, pkcs8Ec, pkcs8Ed25519, pkcs8Rsa, rsaKey } from './der.js';
import { KeyError } from './errors.js';

const MAGIC = 'openssh-key-v1\0';

/** Reads pieces, each of which is a length of four bytes and the bytes. */
class Reader {
  #at: number;

  constructor(
    private readonly bytes: Uint8Array,
    start = 0,
  ) {
    this.#at = start;
  }
  number(): number {
    const four = this.#take(4);
    return new DataView(four.buffer, four.byteOffset).getUint32(0);
  }
  piece(): Uint8Array {
    return this.#take(this.number());
  }
  text(): string {
    return new TextDecoder().decode(this.piece());
  }
  integer(): bigint {
    return this.piece().reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  }
  #take(size: number): Uint8Array {
    if (this.#at + size > this.bytes.length) throw new KeyError('the private key is truncated');
    return this.bytes.slice(this.#at, (this.#at += size));
  }
}

export function fromOpenSsh(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (new TextDecoder('latin1').decode(bytes.subarray(0, MAGIC.length)) !== MAGIC) {
    throw new KeyError('the text is not a private key in OpenSSH\'s format');
  }
  const outer = new Reader(bytes, MAGIC.length);
  if (outer.text() !== 'none') {
    throw new KeyError('the private key is encrypted: remove its passphrase (ssh-keygen -p)');
  }
  outer.piece(); // the parameters of encryption
  outer.piece();
  if (outer.number() !== 1) throw new KeyError('the file must hold exactly one private key');
  outer.piece(); // the public key
  const key = new Reader(outer.piece());
  key.number(); // two equal check numbers
  key.number();
  const kind = key.text();
  if (kind === 'ssh-ed25519') {
    key.piece();
    return pkcs8Ed25519(key.piece().subarray(0, 32));
  }
  if (kind === 'ssh-rsa') {
    const [n, e, d, inverse, p, q] = Array.from({ length: 6 }, () => key.integer());
    return pkcs8Rsa(rsaKey(n!, e!, d!, p!, q!, inverse!));
  }
  const curves: Record<string, [number[], number]> = { nistp256: [P256, 32], nistp384: [P384, 48] };
  const curve = kind.startsWith('ecdsa-') ? curves[key.text()] : undefined;
  if (!curve) throw new KeyError(`keys of the kind ${kind} are not accepted: use RSA, Ed25519 or ECDSA (P-256, P-384)`);
  const point = key.piece();
  const secret = key.piece();
  const padded = new Uint8Array(curve[1]);
  const plain = secret.subarray(Math.max(0, secret.length - curve[1]));
  padded.set(plain, curve[1] - plain.length);
  return pkcs8Ec(curve[0], ecKey(padded, point));
}
