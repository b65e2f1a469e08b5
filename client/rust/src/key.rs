//! Private keys that prove a username.

use crate::der::{self, Reader};
use crate::error::{Error, Result};
use crate::openssh::{self, Parts};
use base64::{engine::general_purpose::STANDARD, Engine};
use ring::rand::SystemRandom;
use ring::rsa::KeyPairComponents;
use ring::signature::{self, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use std::fmt;

const ACCEPTED: &str =
    "use RSA (2048 bits or more), Ed25519 or ECDSA (P-256, P-384), as PEM or in OpenSSH's format";

/// A private key.
pub struct ParsedPrivateKey {
    kind: &'static str,
    signer: Signer,
}

enum Signer {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl ParsedPrivateKey {
    /// Parses the text of a key: PEM (PKCS#8, PKCS#1, SEC1) or OpenSSH's format.
    pub fn parse(text: &str) -> Result<Self> {
        let (label, bytes) = unwrap_pem(text)?;
        match label {
            "PRIVATE KEY" => from_pkcs8(&bytes),
            "RSA PRIVATE KEY" => rsa(RsaKeyPair::from_der(&bytes)),
            "EC PRIVATE KEY" => from_sec1(&bytes, None),
            "OPENSSH PRIVATE KEY" => from_openssh(&bytes),
            "ENCRYPTED PRIVATE KEY" => {
                Err(Error::Key("the private key is encrypted: remove its passphrase first".into()))
            }
            _ => Err(Error::Key(format!("a {label} is not accepted as a private key: {ACCEPTED}"))),
        }
    }

    /// `RSA`, `Ed25519`, `ECDSA P-256` or `ECDSA P-384`.
    pub fn kind(&self) -> &str {
        self.kind
    }

    /// The signature of a message, as the server expects it for this kind of key.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let random = SystemRandom::new();
        let failed = |_| Error::Key("signing with the private key failed".into());
        match &self.signer {
            Signer::Ed25519(key) => Ok(key.sign(message).as_ref().to_vec()),
            Signer::Ecdsa(key) => Ok(key.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
            Signer::Rsa(key) => {
                let mut signed = vec![0; key.public().modulus_len()];
                let padding = &signature::RSA_PKCS1_SHA256;
                key.sign(padding, &random, message, &mut signed).map_err(failed)?;
                Ok(signed)
            }
        }
    }
}

impl fmt::Debug for ParsedPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParsedPrivateKey({})", self.kind)
    }
}

/// Returns the label of a PEM text and its bytes.
fn unwrap_pem(text: &str) -> Result<(&str, Vec<u8>)> {
    let wrong = || Error::Key(format!("the text is not a private key: {ACCEPTED}"));
    let (_, rest) = text.split_once("-----BEGIN ").ok_or_else(wrong)?;
    let (label, rest) = rest.split_once("-----").ok_or_else(wrong)?;
    let (body, _) = rest.split_once("-----END").ok_or_else(wrong)?;
    if body.contains("ENCRYPTED") {
        return Err(Error::Key("the private key is encrypted: remove its passphrase first".into()));
    }
    let plain: String = body.split_whitespace().collect();
    Ok((label, STANDARD.decode(plain).map_err(|_| wrong())?))
}

fn from_pkcs8(bytes: &[u8]) -> Result<ParsedPrivateKey> {
    let parts = || {
        let mut outer = Reader(Reader(bytes).item(der::SEQUENCE)?);
        outer.item(der::INTEGER)?;
        let mut algorithm = Reader(outer.item(der::SEQUENCE)?);
        let kind = algorithm.item(der::OBJECT)?;
        Some((kind, algorithm.item(der::OBJECT), outer.item(der::OCTET_STRING)?))
    };
    let (kind, curve, key) =
        parts().ok_or_else(|| Error::Key(format!("cannot read the private key: {ACCEPTED}")))?;
    match kind {
        der::RSA => rsa(RsaKeyPair::from_der(key)),
        der::EC => from_sec1(key, curve),
        der::ED25519 => ed25519(Reader(key).item(der::OCTET_STRING).unwrap_or_default()),
        _ => Err(Error::Key(format!("keys of this kind are not accepted: {ACCEPTED}"))),
    }
}

fn from_sec1(bytes: &[u8], curve: Option<&[u8]>) -> Result<ParsedPrivateKey> {
    let parts = der::ec_parts(bytes).ok_or_else(|| {
        Error::Key("cannot read the ECDSA key, or it lacks its public part".into())
    })?;
    let name = match curve.or(parts.curve) {
        Some(der::P256) => "nistp256",
        Some(der::P384) => "nistp384",
        _ => "another",
    };
    ecdsa(name, parts.secret, parts.point)
}

fn from_openssh(bytes: &[u8]) -> Result<ParsedPrivateKey> {
    match openssh::parse(bytes)? {
        Parts::Ed25519 { seed } => ed25519(&seed),
        Parts::Ec { curve, point, secret } => ecdsa(&curve, &secret, &point),
        Parts::Rsa { n, e, d, p, q, inverse } => {
            let (d_p, d_q) = (openssh::modulo_less_one(&d, &p), openssh::modulo_less_one(&d, &q));
            rsa(RsaKeyPair::from_components(&KeyPairComponents {
                public_key: ring::rsa::PublicKeyComponents { n: &n[..], e: &e[..] },
                d: &d[..],
                p: &p[..],
                q: &q[..],
                dP: &d_p[..],
                dQ: &d_q[..],
                qInv: &inverse[..],
            }))
        }
    }
}

fn rsa(key: std::result::Result<RsaKeyPair, ring::error::KeyRejected>) -> Result<ParsedPrivateKey> {
    let key =
        key.map_err(|e| Error::Key(format!("the RSA key is not accepted ({e}): {ACCEPTED}")))?;
    Ok(ParsedPrivateKey { kind: "RSA", signer: Signer::Rsa(key) })
}

fn ed25519(seed: &[u8]) -> Result<ParsedPrivateKey> {
    let key = Ed25519KeyPair::from_seed_unchecked(seed)
        .map_err(|e| Error::Key(format!("the Ed25519 key is not accepted ({e})")))?;
    Ok(ParsedPrivateKey { kind: "Ed25519", signer: Signer::Ed25519(key) })
}

fn ecdsa(curve: &str, secret: &[u8], point: &[u8]) -> Result<ParsedPrivateKey> {
    let (kind, algorithm, size) = match curve {
        "nistp256" => ("ECDSA P-256", &signature::ECDSA_P256_SHA256_ASN1_SIGNING, 32),
        "nistp384" => ("ECDSA P-384", &signature::ECDSA_P384_SHA384_ASN1_SIGNING, 48),
        _ => return Err(Error::Key(format!("keys of this curve are not accepted: {ACCEPTED}"))),
    };
    let mut padded = vec![0; size - secret.len().min(size)];
    padded.extend_from_slice(secret);
    let random = SystemRandom::new();
    let key = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &padded, point, &random)
        .map_err(|e| Error::Key(format!("the ECDSA key is not accepted ({e})")))?;
    Ok(ParsedPrivateKey { kind, signer: Signer::Ecdsa(key) })
}
