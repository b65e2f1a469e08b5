//! A GGUF's vocabulary, checked and turned into a tokenizer.
use super::{bpe, spm, unigram, wordpiece};
use crate::tokenizer::pieces::{Pieces, Rule};
use crate::tokenizer::pipeline::AddedTokens;
use crate::tokenizer::{limits, Tokenizer};
use tokenizers::AddedToken;

/// The kind of a token; the numbers are GGUF's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenType {
    Undefined,
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl TokenType {
    fn of(number: i32) -> TokenType {
        match number {
            1 => TokenType::Normal,
            2 => TokenType::Unknown,
            3 => TokenType::Control,
            4 => TokenType::UserDefined,
            5 => TokenType::Unused,
            6 => TokenType::Byte,
            _ => TokenType::Undefined,
        }
    }
}

/// The keys `tokenizer.ggml.*` of a GGUF, borrowed. Keys that the file lacks are empty or None.
#[derive(Default, Clone)]
pub struct Vocabulary<'a> {
    /// The type of the whole model: "llama", "phi3".
    pub architecture: &'a str,
    /// "gpt2", "llama", "t5", "bert".
    pub model: &'a str,
    /// How a text is split into words before BPE.
    pub pre: &'a str,
    pub tokens: Vec<&'a [u8]>,
    pub scores: Vec<f32>,
    pub types: Vec<i32>,
    pub merges: Vec<&'a [u8]>,
    /// Tokens that are special whatever their types say: where a text begins and ends.
    pub special_ids: Vec<u32>,
    pub unknown: Option<u32>,
    pub add_space_prefix: Option<bool>,
    pub remove_extra_whitespaces: Option<bool>,
    pub precompiled_charsmap: &'a [u8],
    pub lowercase: Option<bool>,
    pub strip_accents: Option<bool>,
}

/// A vocabulary whose every table is known to fit every other.
pub struct Checked<'a> {
    pub from: &'a Vocabulary<'a>,
    pub tokens: Vec<&'a str>,
    pub types: Vec<TokenType>,
}

pub fn load(vocabulary: &Vocabulary) -> Result<Tokenizer, String> {
    let checked = Checked::new(vocabulary)?;
    let converted = match vocabulary.model {
        "gpt2" | "gemma4" => bpe::convert(&checked)?,
        "llama" => spm::convert(&checked)?,
        "t5" => unigram::convert(&checked)?,
        "bert" => wordpiece::convert(&checked)?,
        other => {
            return Err(format!(
                "vocabularies of the kind \"{other}\" are not known; known are gpt2 (BPE), llama (SentencePiece), t5 \
                 (Unigram) and bert (WordPiece)"
            ))
        }
    };
    let rule = Rule::of(Some(&converted.decoder))?;
    let mut pieces = Pieces::new(&rule);
    let mut specials = vec![];
    for (id, (token, kind)) in checked.tokens.iter().zip(&checked.types).enumerate() {
        match kind {
            TokenType::Control | TokenType::Unknown => {
                pieces.push(b"")?;
                specials.push((id as u32, token.to_string()));
            }
            TokenType::UserDefined => pieces.push(&rule.added_bytes(token)?)?,
            _ => {
                // By the model, which may spell it otherwise than the file.
                let spelled = converted.model.name(id as u32);
                pieces.push(&rule.bytes(spelled.as_deref().unwrap_or(token))?)?;
            }
        }
    }
    Tokenizer::assemble(
        AddedTokens::new(checked.added())?,
        converted.normalizer,
        converted.pre_tokenizer,
        converted.model,
        pieces,
        specials,
    )
}

impl<'a> Checked<'a> {
    fn new(from: &'a Vocabulary<'a>) -> Result<Self, String> {
        let count = from.tokens.len();
        if count == 0 {
            return Err("it has no tokens".into());
        }
        limits::check_size("it", count)?;
        for (what, len) in [
            ("token_type", from.types.len()),
            ("scores", from.scores.len()),
        ] {
            if len != 0 && len != count {
                return Err(format!(
                    "it has {count} tokens, but {len} entries in {what}: it is damaged"
                ));
            }
        }
        let mut tokens = Vec::with_capacity(count);
        for (id, bytes) in from.tokens.iter().enumerate() {
            tokens.push(text(bytes).map_err(|e| format!("token {id} {e}"))?);
        }
        let mut types: Vec<TokenType> = match from.types.is_empty() {
            true => vec![TokenType::Normal; count],
            false => from.types.iter().map(|&n| TokenType::of(n)).collect(),
        };
        for &id in &from.special_ids {
            let Some(kind) = types.get_mut(id as usize) else {
                return Err(format!(
                    "special token {id} is outside the vocabulary of {count} tokens"
                ));
            };
            if !matches!(kind, TokenType::Unknown | TokenType::Control) {
                *kind = TokenType::Control;
            }
        }
        if from.unknown.is_some_and(|id| id as usize >= count) {
            return Err("its unknown token is outside of it: it is damaged".into());
        }
        Ok(Checked {
            from,
            tokens,
            types,
        })
    }

    /// Tokens of which a text may be made; the others are written as such or not at all.
    pub fn is_text(&self, id: usize) -> bool {
        matches!(
            self.types[id],
            TokenType::Normal | TokenType::Undefined | TokenType::UserDefined
        )
    }

    /// The token for text that no other token covers.
    pub fn unknown(&self) -> Option<u32> {
        let by_type = self.types.iter().position(|&t| t == TokenType::Unknown);
        self.from.unknown.or(by_type.map(|id| id as u32))
    }

    /// Phi-3 drops the whitespace after its special tokens. Its tokenizer.json says so; a GGUF cannot.
    fn eats_spaces(&self, token: &str) -> bool {
        let phi3 = self.from.architecture == "phi3" && self.from.model == "llama";
        phi3 && !["<unk>", "<s>", "<|endoftext|>"].contains(&token)
    }

    /// The tokens that are looked for in every text.
    fn added(&self) -> Vec<(u32, AddedToken)> {
        let mut added = vec![];
        for (id, &kind) in self.types.iter().enumerate() {
            let special = matches!(kind, TokenType::Control | TokenType::Unknown);
            if (special || kind == TokenType::UserDefined) && !self.tokens[id].is_empty() {
                let token = AddedToken::from(self.tokens[id], special).normalized(false);
                let strips = self.eats_spaces(self.tokens[id]);
                added.push((id as u32, token.rstrip(strips)));
            }
        }
        added
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    if bytes.len() > limits::TOKEN_BYTES {
        return Err(format!(
            "has {} bytes, more than {}: the vocabulary is damaged",
            bytes.len(),
            limits::TOKEN_BYTES
        ));
    }
    std::str::from_utf8(bytes).map_err(|_| "is not UTF-8: the vocabulary is damaged".into())
}
