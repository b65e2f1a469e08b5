//! Tokens that are looked for in a text before the model sees it: special ones, and those that were added later.
use super::limits;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::{AddedToken, AddedVocabulary, Model, Token};

pub struct Added {
    pub all: AddedVocabulary,
    /// The same with the special ones ignored, for text that must not become a control token.
    pub plain: AddedVocabulary,
}

impl Added {
    pub fn new(
        tokens: &[(u32, AddedToken)],
        normalizer: Option<&NormalizerWrapper>,
    ) -> Result<Added, String> {
        limits::check_added(tokens.iter().map(|t| t.1.content.as_str()))?;
        let ids = tokens.iter().rev(); // of equal ones the first is meant
        let ids = Ids(ids.map(|t| (t.1.content.as_str(), t.0)).collect());
        let contents: Vec<AddedToken> = tokens.iter().map(|t| t.1.clone()).collect();
        let mut all = AddedVocabulary::new();
        all.add_tokens(&contents, &ids, normalizer);
        let mut plain = all.clone();
        plain.set_encode_special_tokens(true);
        Ok(Added { all, plain })
    }

    pub fn id(&self, name: &str) -> Option<u32> {
        self.all.get_vocab().get(name).copied()
    }
}

/// The crate asks a model for the ids of added tokens, and gives new ones to those that the model does not know. Here
/// they have their ids already.
struct Ids<'a>(HashMap<&'a str, u32>);

impl Model for Ids<'_> {
    type Trainer = BpeTrainer;

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.get(token).copied()
    }
    fn get_vocab_size(&self) -> usize {
        self.0.len()
    }
    fn get_vocab(&self) -> HashMap<String, u32> {
        self.0.iter().map(|(k, v)| (k.to_string(), *v)).collect()
    }
    fn id_to_token(&self, _: u32) -> Option<String> {
        None
    }
    fn tokenize(&self, _: &str) -> tokenizers::Result<Vec<Token>> {
        Ok(vec![])
    }
    fn save(&self, _: &Path, _: Option<&str>) -> tokenizers::Result<Vec<PathBuf>> {
        Ok(vec![])
    }
    fn get_trainer(&self) -> BpeTrainer {
        BpeTrainer::default()
    }
}
