//! BPE by a list of merges, as Hugging Face does it.
use super::merge::Scratch;
use super::{byte_tokens, Names};
use crate::tokenizer::limits;
use std::collections::HashMap;

pub struct Bpe {
    pub names: Names,
    /// Left and right token → rank and the token that they become.
    merges: HashMap<(u32, u32), (u32, u32)>,
    /// The tokens for single bytes, for characters without a token. Empty if the vocabulary has none.
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
    /// Many unknown characters in a row are one unknown token.
    fuse_unknown: bool,
    /// A piece that is a token stays whole, whatever the merges say.
    whole_first: bool,
}

#[derive(Default, Clone, Copy)]
pub struct Options {
    pub byte_fallback: bool,
    pub unknown: Option<u32>,
    pub fuse_unknown: bool,
    pub whole_first: bool,
}

impl Bpe {
    /// `merges`: the left and the right part of each, the most important first.
    pub fn new<'a>(
        names: Names,
        merges: impl ExactSizeIterator<Item = Result<(&'a str, &'a str), String>>,
        options: Options,
    ) -> Result<Bpe, String> {
        if merges.len() > limits::MERGES {
            let (have, may) = (merges.len(), limits::MERGES);
            return Err(format!(
                "it has {have} merges, more than {may}: it is damaged"
            ));
        }
        let mut table = HashMap::with_capacity(merges.len());
        let mut joined = String::new();
        for (pair, rank) in merges.zip(0..) {
            let (left, right) = pair?;
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let id = |name: &str| {
                let missing =
                    || format!("merge {rank} is of {name:?}, which is not a token: it is damaged");
                names.id(name).ok_or_else(missing)
            };
            table.insert((id(left)?, id(right)?), (rank, id(&joined)?));
        }
        let bytes = match options.byte_fallback {
            true => byte_tokens(&names),
            false => vec![],
        };
        Ok(Bpe {
            names,
            merges: table,
            bytes,
            unknown: options.unknown,
            fuse_unknown: options.fuse_unknown,
            whole_first: options.whole_first,
        })
    }

    pub fn encode(&self, piece: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        if self.whole_first {
            if let Some(id) = self.names.id(piece) {
                ids.push(id);
                return;
            }
        }
        scratch.clear();
        let mut unknown = 0..0; // where the last unknown character lies
        for (start, c) in piece.char_indices() {
            let end = start + c.len_utf8();
            if let Some(id) = self.names.id(&piece[start..end]) {
                scratch.push(id, start, end - start);
            } else if let Some(bytes) = self.fallback(&piece[start..end]) {
                bytes
                    .zip(start..)
                    .for_each(|(id, at)| scratch.push(id, at, 1));
            } else if let Some(id) = self.unknown {
                if !(self.fuse_unknown && unknown.end == start && start > 0) {
                    scratch.push(id, start, end - start);
                }
                unknown = start..end;
            } // otherwise the vocabulary cannot express it, and Hugging Face leaves it out
        }
        scratch.merge(|left, right| self.merges.get(&(left.id, right.id)).copied());
        ids.extend(scratch.symbols().map(|symbol| symbol.id));
    }

    fn fallback<'a>(&'a self, c: &'a str) -> Option<impl Iterator<Item = u32> + 'a> {
        let token = |byte: u8| self.bytes.get(byte as usize).copied().flatten();
        let all = c.bytes().all(|byte| token(byte).is_some());
        all.then(|| c.bytes().filter_map(token))
    }
}
