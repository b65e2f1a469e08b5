//! A model's tokenizer, from a `tokenizer.json` or from a GGUF's vocabulary, over the `tokenizers` crate.
//!
//! The crate's parts are run here one by one: added tokens, normalizer, pre-tokenizer. Its post-processor, truncation
//! and padding are left out: what is encoded is what was written, nothing before or after it. Decoding is ours: every
//! token's bytes are known from the start ([`pieces`]), so that a text decoded token by token is the text decoded at
//! once.
mod added;
mod convert;
mod json;
pub mod limits;
mod model;
mod pieces;
mod split_regex;

#[cfg(test)]
mod tests;

pub use convert::{known_splits, Vocabulary};

use added::Added;
use model::Model;
use pieces::Pieces;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{AddedVocabulary, OffsetReferential, OffsetType, PreTokenizer};

/// Immutable, shared by threads.
pub struct Tokenizer {
    added: Added,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    model: Model,
    pieces: Pieces,
    /// Id and name, by id.
    specials: Vec<(u32, String)>,
    split_regex: String,
}

impl Tokenizer {
    /// From the content of a `tokenizer.json`.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        json::load(json)
    }

    /// From what a GGUF says of its vocabulary.
    pub fn from_vocabulary(vocabulary: &Vocabulary) -> Result<Self, String> {
        convert::load(vocabulary)
    }

    fn assemble(
        added: Added,
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<PreTokenizerWrapper>,
        model: Model,
        mut pieces: Pieces,
        specials: Vec<(u32, String)>,
    ) -> Self {
        pieces.shrink();
        Tokenizer {
            added,
            normalizer,
            split_regex: split_regex::of(pre_tokenizer.as_ref()),
            pre_tokenizer,
            model,
            pieces,
            specials,
        }
    }

    /// With room for at least `size` tokens. A model's table of embeddings is often longer than its vocabulary; the
    /// ids between have no text.
    pub fn padded(mut self, size: u32) -> Result<Self, String> {
        limits::check_size("the model", size as usize)?;
        self.pieces.pad(size);
        Ok(self)
    }

    /// Special and added tokens written in the text become those tokens.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.encode_with(&self.added.all, text)
    }

    /// Special tokens written in the text are text like any other.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, String> {
        self.encode_with(&self.added.plain, text)
    }

    fn encode_with(&self, added: &AddedVocabulary, text: &str) -> Result<Vec<u32>, String> {
        limits::check_text(text)?;
        let mut split = added.extract_and_normalize(self.normalizer.as_ref(), text);
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer
                .pre_tokenize(&mut split)
                .map_err(|e| format!("the text cannot be cut into words: {e}"))?;
        }
        let mut encoder = self.model.encoder();
        let mut ids = vec![];
        for (piece, _, found) in split.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match found {
                Some(added) => ids.extend(added.iter().map(|token| token.id)),
                None => encoder.encode(piece, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// The text of `ids` without special tokens. Bytes that are no UTF-8 become U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> Result<String, String> {
        let mut bytes = Vec::new();
        for &id in ids {
            if id >= self.vocab_size() {
                let size = self.vocab_size();
                return Err(format!(
                    "token {id} is outside the vocabulary of {size} tokens"
                ));
            }
            bytes.extend_from_slice(self.pieces.get(id));
        }
        if self.drops_leading_space() && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether a text decoded from its beginning loses one leading space: vocabularies of SentencePiece write one in
    /// front of the first word.
    pub fn drops_leading_space(&self) -> bool {
        self.pieces.drops_leading_space()
    }

    /// What the token stands for in a text; nothing for special tokens and for ids without a token.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.pieces.get(id)
    }

    /// All tokens' bytes in one piece, and where each ends.
    pub fn all_bytes(&self) -> (&[u8], &[u32]) {
        self.pieces.flat()
    }

    pub fn vocab_size(&self) -> u32 {
        self.pieces.len()
    }

    /// By the vocabulary's own spelling: `<|im_end|>`, `Ġthe`, `▁the`.
    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.added.id(token).or_else(|| self.model.id(token))
    }

    /// The vocabulary's own spelling of a token.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        let added = self.added.all.simple_id_to_token(id);
        added.or_else(|| self.model.name(id))
    }

    /// Ids and names of the special tokens, by id.
    pub fn specials(&self) -> &[(u32, String)] {
        &self.specials
    }

    pub fn is_special(&self, id: u32) -> bool {
        self.specials.binary_search_by_key(&id, |s| s.0).is_ok()
    }

    /// The regular expression that cuts a text before the model sees it; empty where nothing cuts.
    pub fn split_regex(&self) -> &str {
        &self.split_regex
    }
}
