//! Vocabularies small enough to see through. Real ones are in `tests/tokens` of the project.
mod damaged;
mod gguf;
mod json;
mod models;
mod pipeline;

use super::{Tokenizer, Vocabulary};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    NormalizedString, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

/// A GGUF's vocabulary that owns its texts.
#[derive(Default, Clone)]
pub struct Made {
    pub architecture: &'static str,
    pub model: &'static str,
    pub pre: &'static str,
    pub tokens: Vec<String>,
    pub types: Vec<i32>,
    pub scores: Vec<f32>,
    pub merges: Vec<String>,
    pub special_ids: Vec<u32>,
    pub add_space_prefix: Option<bool>,
    pub precompiled_charsmap: Vec<u8>,
}

pub const NORMAL: i32 = 1;
pub const UNKNOWN: i32 = 2;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;
pub const BYTE: i32 = 6;

impl Made {
    pub fn token(mut self, token: &str, kind: i32, score: f32) -> Self {
        self.tokens.push(token.into());
        self.types.push(kind);
        self.scores.push(score);
        self
    }

    pub fn vocabulary(&self) -> Vocabulary<'_> {
        Vocabulary {
            architecture: self.architecture,
            model: self.model,
            pre: self.pre,
            tokens: self.tokens.iter().map(|t| t.as_bytes()).collect(),
            types: self.types.clone(),
            scores: self.scores.clone(),
            merges: self.merges.iter().map(|t| t.as_bytes()).collect(),
            special_ids: self.special_ids.clone(),
            add_space_prefix: self.add_space_prefix,
            precompiled_charsmap: &self.precompiled_charsmap,
            ..Vocabulary::default()
        }
    }

    pub fn load(&self) -> Result<Tokenizer, String> {
        Tokenizer::from_vocabulary(&self.vocabulary())
    }

    pub fn error(&self) -> String {
        match self.load() {
            Ok(_) => panic!("it loads"),
            Err(text) => text,
        }
    }

    pub fn id(&self, token: &str) -> u32 {
        self.tokens.iter().position(|t| t == token).expect("there") as u32
    }
}

/// A byte in GPT-2's alphabet, as the crate writes it.
pub fn spelled(byte: u8) -> char {
    // The crate spells characters, not bytes: ask with a character that has this byte in it.
    let text: String = match byte {
        0..=0x7f => char::from(byte).into(),
        0x80..=0xbf => char::from_u32(0x80 | u32::from(byte & 0x3f))
            .unwrap()
            .into(),
        _ => {
            let first = [byte, 0x80, 0x80, 0x80];
            let found = (1..=4).find_map(|n| std::str::from_utf8(&first[..n]).ok());
            let second = [byte, 0xa0, 0x80]; // e0 has no other
            let third = [byte, 0x90, 0x80, 0x80]; // f0
            let found = found
                .or_else(|| std::str::from_utf8(&second).ok())
                .or_else(|| std::str::from_utf8(&third).ok());
            match found {
                Some(text) => text.into(),
                None => return not_in_utf8(byte),
            }
        }
    };
    let mut split = PreTokenizedString::from(NormalizedString::from(text.as_str()));
    ByteLevel::new(false, false, false)
        .pre_tokenize(&mut split)
        .unwrap();
    let splits = split.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    let at = text.bytes().position(|b| b == byte).unwrap();
    splits[0].0.chars().nth(at).unwrap()
}

/// c0, c1 and f5 to ff are in no text; they stand for themselves.
fn not_in_utf8(byte: u8) -> char {
    char::from(byte)
}

/// All bytes, "he", "ll", "hell" and "Ġhell", a special token and one that a user defined.
pub fn bytes_vocabulary() -> Made {
    let mut made = Made {
        model: "gpt2",
        pre: "gpt-2",
        ..Made::default()
    };
    for byte in 0..=255 {
        made = made.token(&spelled(byte).to_string(), NORMAL, 0.0);
    }
    for token in ["he", "ll", "hell", "Ġhell"] {
        made = made.token(token, NORMAL, 0.0);
    }
    made = made.token("<|end|>", CONTROL, 0.0);
    made = made.token("<tool>", USER_DEFINED, 0.0);
    made.merges = ["h e", "l l", "he ll", "Ġ hell"].map(String::from).to_vec();
    made
}

/// SentencePiece: a few words, and bytes for all else.
pub fn spm_vocabulary() -> Made {
    let mut made = Made {
        model: "llama",
        pre: "default",
        ..Made::default()
    };
    made = made.token("<unk>", UNKNOWN, 0.0);
    made = made.token("<s>", CONTROL, 0.0);
    made = made.token("</s>", CONTROL, 0.0);
    for byte in 0..=255 {
        made = made.token(&format!("<0x{byte:02X}>"), BYTE, 0.0);
    }
    for (token, score) in [
        ("▁t", -1.0),
        ("he", -2.0),
        ("▁the", -3.0),
        ("▁▁", -4.0),
        ("en", -5.0),
        ("▁", -6.0),
        ("t", -7.0),
        ("h", -8.0),
        ("e", -9.0),
        ("n", -10.0),
        ("é", -11.0),
    ] {
        made = made.token(token, NORMAL, score);
    }
    made
}

/// One token after another, as a chat decoder does it.
pub fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<u8> {
    let mut bytes = vec![];
    let mut at_start = tokenizer.drops_leading_space();
    for piece in ids.iter().map(|&id| tokenizer.bytes(id)) {
        let rest = piece.strip_prefix(b" ").filter(|_| at_start);
        bytes.extend_from_slice(rest.unwrap_or(piece));
        at_start &= piece.is_empty();
    }
    bytes
}
