//! A model's tokenizer, from a `tokenizer.json` or from a GGUF's vocabulary, over the `tokenizers` crate.
//!
//! The crate reads files and runs what is rare; what nearly every language model uses is done here, in less memory
//! (`model`, `pipeline`). The crate's post-processor, truncation and padding are left out: what is encoded is what
//! was written, nothing before or after it. Decoding is ours: every token's bytes are known from the start
//! (`pieces`), so that a text decoded token by token is the text decoded at once.
mod byte_vocabulary;
mod convert;
mod json;
pub mod limits;
mod model;
mod pieces;
mod pipeline;
mod split_regex;

#[cfg(test)]
mod tests;

pub use convert::{known_splits, Vocabulary};

use model::Model;
use pieces::Pieces;
use pipeline::{AddedTokens, Pipeline};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

/// Immutable, shared by threads.
pub struct Tokenizer {
    added: AddedTokens,
    pipeline: Pipeline,
    model: Model,
    pieces: Pieces,
    /// Id and name, by id.
    specials: Vec<(u32, String)>,
    split_regex: String,
    /// [`Tokenizer::encode`] never makes special tokens out of text.
    text_stays_text: bool,
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

    /// Every byte is a token. `specials` names the special tokens, whose ids follow those of the bytes. A text never
    /// becomes a special token.
    pub fn from_bytes(specials: &[&str]) -> Result<Self, String> {
        byte_vocabulary::load(specials)
    }

    fn assemble(
        added: AddedTokens,
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<PreTokenizerWrapper>,
        model: Model,
        mut pieces: Pieces,
        specials: Vec<(u32, String)>,
    ) -> Result<Self, String> {
        pieces.shrink();
        Ok(Tokenizer {
            split_regex: split_regex::of(pre_tokenizer.as_ref()),
            pipeline: Pipeline::new(&added, normalizer, pre_tokenizer)?,
            added,
            model,
            pieces,
            specials,
            text_stays_text: false,
        })
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
        self.pipeline
            .encode(&self.model, text, self.text_stays_text)
    }

    /// Encodes the output of a chat template: its special tokens are found in every vocabulary, also in one of bytes.
    pub fn encode_template(&self, text: &str) -> Result<Vec<u32>, String> {
        self.pipeline.encode(&self.model, text, false)
    }

    /// Special tokens written in the text are text like any other.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, String> {
        self.pipeline.encode(&self.model, text, true)
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

    /// The bytes of a token in a text; nothing for special tokens and for ids without a token.
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
        let added = self.added.name(id).map(String::from);
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
