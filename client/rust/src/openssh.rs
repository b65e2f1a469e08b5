//! Parses a private key in OpenSSH's format.

use crate::error::{Error, Result};

const MAGIC: &[u8] = b"openssh-key-v1\0";

/// The parts of a key. Numbers are big-endian, without leading zeros.
pub enum Parts {
    Ed25519 { seed: Vec<u8> },
    Rsa { n: Vec<u8>, e: Vec<u8>, d: Vec<u8>, p: Vec<u8>, q: Vec<u8>, inverse: Vec<u8> },
    Ec { curve: String, point: Vec<u8>, secret: Vec<u8> },
}

/// Reads pieces, each of which is a length of four bytes and the bytes.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Result<u32> {
        let four = self.take(4)?;
        Ok(u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    }

    fn piece(&mut self) -> Result<&'a [u8]> {
        let size = self.number()? as usize;
        self.take(size)
    }

    fn integer(&mut self) -> Result<Vec<u8>> {
        let bytes = self.piece()?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok(bytes[zeros..].to_vec())
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        if size > self.0.len() {
            return Err(Error::Key("the private key is truncated".into()));
        }
        let (taken, rest) = self.0.split_at(size);
        self.0 = rest;
        Ok(taken)
    }
}

pub fn parse(bytes: &[u8]) -> Result<Parts> {
    let wrong = |text: &str| Error::Key(text.into());
    let inner =
        bytes.strip_prefix(MAGIC).ok_or_else(|| wrong("the text is not in OpenSSH's format"))?;
    let mut outer = Reader(inner);
    if outer.piece()? != b"none" {
        return Err(wrong("the private key is encrypted: remove its passphrase (ssh-keygen -p)"));
    }
    outer.piece()?; // the parameters of encryption
    outer.piece()?;
    if outer.number()? != 1 {
        return Err(wrong("the file must hold exactly one private key"));
    }
    outer.piece()?; // the public key
    let mut key = Reader(outer.piece()?);
    key.take(8)?; // two equal check numbers
    let kind = String::from_utf8_lossy(key.piece()?).into_owned();
    match kind.as_str() {
        "ssh-ed25519" => {
            key.piece()?;
            let seed =
                key.piece()?.get(..32).ok_or_else(|| wrong("the private key is truncated"))?;
            Ok(Parts::Ed25519 { seed: seed.to_vec() })
        }
        "ssh-rsa" => {
            let (n, e, d) = (key.integer()?, key.integer()?, key.integer()?);
            let (inverse, p, q) = (key.integer()?, key.integer()?, key.integer()?);
            Ok(Parts::Rsa { n, e, d, p, q, inverse })
        }
        _ if kind.starts_with("ecdsa-") => {
            let curve = String::from_utf8_lossy(key.piece()?).into_owned();
            let point = key.piece()?.to_vec();
            Ok(Parts::Ec { curve, point, secret: key.integer()? })
        }
        _ => Err(Error::Key(format!(
            "keys of the kind {kind} are not accepted: use RSA, Ed25519 or ECDSA (P-256, P-384)"
        ))),
    }
}

/// Computes `a` modulo `m - 1`, bit by bit, for the exponents that OpenSSH leaves out.
pub fn modulo_less_one(a: &[u8], m: &[u8]) -> Vec<u8> {
    let mut modulus = m.to_vec();
    if let Some(last) = modulus.last_mut() {
        *last &= 0xfe; // primes are odd
    }
    let mut rest = vec![0u8; modulus.len() + 1];
    modulus.insert(0, 0);
    for byte in a {
        for bit in (0..8).rev() {
            let mut carry = byte >> bit & 1;
            for digit in rest.iter_mut().rev() {
                (*digit, carry) = (*digit << 1 | carry, *digit >> 7);
            }
            if rest >= modulus {
                let mut borrow = 0i16;
                for (digit, less) in rest.iter_mut().zip(&modulus).rev() {
                    let value = i16::from(*digit) - i16::from(*less) - borrow;
                    borrow = i16::from(value < 0);
                    *digit = value.rem_euclid(256) as u8;
                }
            }
        }
    }
    let zeros = rest.iter().take_while(|byte| **byte == 0).count();
    rest[zeros..].to_vec()
}
