//! Leaves everything to the `tokenizers` crate, with all its normalizers and pre-tokenizers.
use super::{AddedTokens, Part};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use tokenizers::models::bpe::BpeTrainer;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{
    AddedToken, AddedVocabulary, Model, OffsetReferential, OffsetType, PreTokenizer, Token,
};

pub struct ByCrate {
    added: AddedVocabulary,
    /// The same with the special ones ignored.
    plain: AddedVocabulary,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
}

impl ByCrate {
    pub fn new(
        tokens: &AddedTokens,
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<PreTokenizerWrapper>,
    ) -> ByCrate {
        let contents: Vec<AddedToken> = tokens.tokens.iter().map(|t| t.1.clone()).collect();
        let mut added = AddedVocabulary::new();
        added.add_tokens(&contents, &Ids(tokens), normalizer.as_ref());
        let mut plain = added.clone();
        plain.set_encode_special_tokens(true);
        ByCrate {
            added,
            plain,
            normalizer,
            pre_tokenizer,
        }
    }

    pub fn run(
        &self,
        text: &str,
        plain: bool,
        take: &mut impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        let added = if plain { &self.plain } else { &self.added };
        let mut split = added.extract_and_normalize(self.normalizer.as_ref(), text);
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer
                .pre_tokenize(&mut split)
                .map_err(|e| format!("the text cannot be cut into words: {e}"))?;
        }
        for (piece, _, found) in split.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match found {
                Some(added) => added.iter().try_for_each(|t| take(Part::Token(t.id)))?,
                None => take(Part::Text(piece))?,
            }
        }
        Ok(())
    }
}

/// The crate asks a model for the ids of added tokens, and gives new ones to those that the model does not know. Here
/// they have their ids already.
struct Ids<'a>(&'a AddedTokens);

impl Model for Ids<'_> {
    type Trainer = BpeTrainer;

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.0.id(token)
    }
    fn get_vocab_size(&self) -> usize {
        self.0.tokens.len()
    }
    fn get_vocab(&self) -> HashMap<String, u32> {
        HashMap::new()
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
