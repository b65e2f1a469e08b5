//! SentencePiece's BPE: no list of merges, but a score for every token. Any two neighbours that together are a token may
//! be merged, the highest score first.
use super::merge::{Scratch, Symbol, NONE};
use super::{byte_tokens, Names};

pub struct Spm {
    pub names: Names,
    /// The rank of each token: 0 for the highest score, `NONE` for tokens that no merge makes.
    ranks: Vec<u32>,
    bytes: Vec<Option<u32>>,
    unknown: Option<u32>,
}

impl Spm {
    /// `scores`: of the tokens that text is made of.
    pub fn new(names: Names, scores: &[Option<f32>], unknown: Option<u32>) -> Spm {
        Spm {
            bytes: byte_tokens(&names),
            ranks: scores.iter().map(|&s| s.map_or(NONE, rank)).collect(),
            names,
            unknown,
        }
    }

    pub fn encode(&self, piece: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        scratch.clear();
        for (start, c) in piece.char_indices() {
            let len = c.len_utf8();
            let id = self.token(&piece[start..start + len]).map_or(NONE, |t| t.1);
            scratch.push(id, start, len);
        }
        scratch.merge(|left, right| {
            let end = right.start + right.len;
            self.token(&piece[left.start as usize..end as usize])
        });
        let text = |symbol: &Symbol| {
            let start = symbol.start as usize;
            &piece.as_bytes()[start..start + symbol.len as usize]
        };
        for symbol in scratch.symbols() {
            if symbol.id != NONE {
                ids.push(symbol.id);
                continue;
            }
            for &byte in text(symbol) {
                ids.extend(self.bytes[byte as usize].or(self.unknown));
            }
        }
    }

    /// Rank and id of the token that is spelled so.
    fn token(&self, text: &str) -> Option<(u32, u32)> {
        let id = self.names.id(text)?;
        let rank = self.ranks[id as usize];
        (rank != NONE).then_some((rank, id))
    }
}

/// A number that is lower for higher scores. It is never `NONE`, which only a NaN would give.
fn rank(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits(); // no negative zero
    let ascending = match bits >> 31 {
        0 => bits | 1 << 31,
        _ => !bits,
    };
    !ascending
}
