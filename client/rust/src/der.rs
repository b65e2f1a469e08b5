//! The part of DER that private keys need.

pub const SEQUENCE: u8 = 0x30;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OBJECT: u8 = 0x06;
pub const TAG_0: u8 = 0xa0;
pub const TAG_1: u8 = 0xa1;

pub const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
pub const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
pub const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
pub const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
pub const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];

/// Reads a sequence of items.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Returns the content of the next item if it has this tag.
    pub fn item(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        if found != tag {
            return None;
        }
        let mut size = usize::from(first);
        if first & 0x80 != 0 {
            let bytes = usize::from(first & 0x7f);
            if bytes == 0 || bytes > 4 || bytes > rest.len() {
                return None;
            }
            size = rest[..bytes].iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            rest = &rest[bytes..];
        }
        if size > rest.len() {
            return None;
        }
        let (content, rest) = rest.split_at(size);
        self.0 = rest;
        Some(content)
    }
}

/// The secret and the public point of a SEC1 key, and its curve if the key names it.
pub struct EcParts<'a> {
    pub secret: &'a [u8],
    pub point: &'a [u8],
    pub curve: Option<&'a [u8]>,
}

pub fn ec_parts(sec1: &[u8]) -> Option<EcParts<'_>> {
    let mut key = Reader(Reader(sec1).item(SEQUENCE)?);
    key.item(INTEGER)?;
    let secret = key.item(OCTET_STRING)?;
    let curve = key.item(TAG_0).and_then(|inner| Reader(inner).item(OBJECT));
    let point = Reader(key.item(TAG_1)?).item(BIT_STRING)?;
    Some(EcParts { secret, point: point.get(1..)?, curve })
}
