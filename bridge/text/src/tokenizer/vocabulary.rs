//! A GGUF's vocabulary, checked and turned into the parts of the `tokenizers` crate.
use super::pieces::{Pieces, Rule};
use super::{bpe, limits, spm, unigram, wordpiece, Tokenizer};
use tokenizers::{AddedToken, Model};

/// What kind of token it is; the numbers are GGUF's.
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

/// The keys `tokenizer.ggml.*` of a GGUF, borrowed. What a file does not have is empty or none.
#[derive(Default, Clone)]
pub struct Vocabulary<'a> {
    /// "gpt2", "llama", "t5", "bert".
    pub model: &'a str,
    /// How a text is cut before BPE.
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
    let mut parts = match vocabulary.model {
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
    parts.add_tokens(&checked.added());

    let rule = Rule::of(parts.get_decoder())?;
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
                let spelled = parts.get_model().id_to_token(id as u32);
                pieces.push(&rule.bytes(spelled.as_deref().unwrap_or(token))?)?;
            }
        }
    }
    Ok(Tokenizer::assemble(parts, pieces, specials))
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
        if from.merges.len() > limits::MERGES {
            let (have, may) = (from.merges.len(), limits::MERGES);
            return Err(format!(
                "it has {have} merges, more than {may}: it is damaged"
            ));
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
        let checked = Checked {
            from,
            tokens,
            types,
        };
        limits::check_added(checked.added_ids().map(|id| checked.tokens[id]))?;
        Ok(checked)
    }

    /// Tokens of which a text may be made; the others are written as such or not at all.
    pub fn is_text(&self, id: usize) -> bool {
        matches!(
            self.types[id],
            TokenType::Normal | TokenType::Undefined | TokenType::UserDefined
        )
    }

    fn added_ids(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.tokens.len()).filter(|&id| {
            matches!(
                self.types[id],
                TokenType::Control | TokenType::UserDefined | TokenType::Unknown
            ) && !self.tokens[id].is_empty()
        })
    }

    fn added(&self) -> Vec<AddedToken> {
        self.added_ids()
            .map(|id| {
                let special = self.types[id] != TokenType::UserDefined;
                AddedToken::from(self.tokens[id], special).normalized(false)
            })
            .collect()
    }

    /// The vocabulary as a map. Of equal tokens the first is meant.
    pub fn ids<M: FromIterator<(String, u32)>>(&self) -> M {
        let all = self.tokens.iter().enumerate().rev();
        all.map(|(id, token)| (token.to_string(), id as u32))
            .collect()
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
