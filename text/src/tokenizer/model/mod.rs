//! Turns a piece of text into tokens. BPE and SentencePiece, which nearly every model uses, are implemented here with
//! flat tables of a few megabytes; the maps of the `tokenizers` crate take ten times that. The crate runs all others.
mod bpe;
mod merge;
mod names;
mod spm;

pub use bpe::{Bpe, Options as BpeOptions};
pub use names::Names;
pub use spm::Spm;

use merge::Scratch;
use tokenizers::Model as _;

pub enum Model {
    Bpe(Bpe),
    Spm(Spm),
    /// Every byte is the token of its own value.
    Bytes,
    /// WordPiece, WordLevel, Unigram, and BPE with marks at the ends of words.
    Other(Box<tokenizers::Tokenizer>),
}

/// Encodes the pieces of one text.
pub struct Encoder<'a> {
    model: &'a Model,
    scratch: Scratch,
}

impl Model {
    pub fn encoder(&self) -> Encoder<'_> {
        Encoder {
            model: self,
            scratch: Scratch::default(),
        }
    }

    pub fn id(&self, name: &str) -> Option<u32> {
        match self {
            Model::Bpe(bpe) => bpe.names.id(name),
            Model::Spm(spm) => spm.names.id(name),
            Model::Bytes => match name.as_bytes() {
                [byte] => Some(u32::from(*byte)),
                _ => None,
            },
            Model::Other(parts) => parts.token_to_id(name),
        }
    }

    pub fn name(&self, id: u32) -> Option<String> {
        match self {
            Model::Bpe(bpe) => bpe.names.get(id).map(String::from),
            Model::Spm(spm) => spm.names.get(id).map(String::from),
            Model::Bytes => u8::try_from(id).ok().map(|byte| char::from(byte).into()),
            Model::Other(parts) => parts.id_to_token(id),
        }
    }
}

impl Encoder<'_> {
    /// Appends the tokens of `piece` to `ids`.
    pub fn encode(&mut self, piece: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        match self.model {
            Model::Bpe(bpe) => bpe.encode(piece, &mut self.scratch, ids),
            Model::Spm(spm) => spm.encode(piece, &mut self.scratch, ids),
            Model::Bytes => ids.extend(piece.bytes().map(u32::from)),
            Model::Other(parts) => {
                let tokens = parts.get_model().tokenize(piece);
                let tokens = tokens.map_err(|e| format!("the text cannot be encoded: {e}"))?;
                ids.extend(tokens.iter().map(|token| token.id));
            }
        }
        Ok(())
    }
}

/// A vocabulary's tokens for single bytes (`<0xNN>`), by byte.
fn byte_tokens(names: &Names) -> Vec<Option<u32>> {
    let token = |byte: u32| names.id(&format!("<0x{byte:02X}>"));
    (0..256).map(token).collect()
}
