//! Loaded models and their tokenizers.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::pie::core::model::{Model as RawModel, Tokenizer as RawTokenizer};
use crate::pie::plus::{fallible, templates};
use crate::Result;

/// A model that the engine has loaded. Cloning shares the handle.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    // Before `raw`: fields are dropped in order, and a tokenizer comes from its model.
    tokenizer: OnceLock<Tokenizer>,
    raw: RawModel,
}

impl Model {
    /// Binds to a model by its name in the engine's configuration (see `runtime::models()`).
    pub fn load(name: &str) -> Result<Model> {
        Ok(Self(Arc::new(Inner { tokenizer: OnceLock::new(), raw: RawModel::load(name)? })))
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        self.0.tokenizer.get_or_init(|| Tokenizer::new(self.0.raw.tokenizer()))
    }

    /// Sets a variable of the model's chat template, such as `enable_thinking`, to a text, a boolean or a number; null
    /// removes it. It counts for all turns that are written and all decoders that are made from now on with this model
    /// or a clone of it; what is written already stays. A variable that the template does not read has no effect. Fails on
    /// variables that the engine sets itself, and on values that the template refuses.
    pub fn template_option(&self, name: &str, value: impl Into<serde_json::Value>) -> Result<()> {
        let value = value.into();
        let text = (!value.is_null()).then(|| value.to_string());
        templates::set_option(&self.0.raw, name, text.as_deref())
    }

    /// The underlying resource.
    pub fn inner(&self) -> &RawModel {
        &self.0.raw
    }
}

/// A function of the raw bindings takes a `&Model` too.
impl Deref for Model {
    type Target = RawModel;

    fn deref(&self) -> &RawModel {
        self.inner()
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").finish_non_exhaustive()
    }
}

/// Text to token ids and back.
pub struct Tokenizer {
    raw: RawTokenizer,
    split_regex: OnceLock<String>,
    /// In ascending order.
    special_ids: OnceLock<Vec<u32>>,
}

impl Tokenizer {
    fn new(raw: RawTokenizer) -> Self {
        Self { raw, split_regex: OnceLock::new(), special_ids: OnceLock::new() }
    }

    /// Encodes a text. A text that the vocabulary cannot express ends the run.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.raw.encode(text)
    }

    /// Like [`encode`](Tokenizer::encode), but fails on a text that the vocabulary cannot express.
    pub fn try_encode(&self, text: &str) -> Result<Vec<u32>> {
        fallible::encode(&self.raw, text)
    }

    /// Decodes tokens. Special tokens become their names. Fails on an id outside the vocabulary.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.raw.decode(ids)
    }

    /// Like [`decode`](Tokenizer::decode), but may leave special tokens out.
    pub fn decode_with(&self, ids: &[u32], skip_special_tokens: bool) -> Result<String> {
        if !skip_special_tokens {
            return self.decode(ids);
        }
        let special = self.special_ids.get_or_init(|| {
            let mut ids = self.raw.special_tokens().0;
            ids.sort_unstable();
            ids
        });
        let kept = ids.iter().copied().filter(|id| special.binary_search(id).is_err());
        self.decode(&kept.collect::<Vec<u32>>())
    }

    /// Every token id with its bytes.
    pub fn vocabs(&self) -> (Vec<u32>, Vec<Vec<u8>>) {
        self.raw.vocabs()
    }

    /// The ids that stand for no text of their own (BOS, EOS, …), with their names.
    pub fn special_tokens(&self) -> (Vec<u32>, Vec<Vec<u8>>) {
        self.raw.special_tokens()
    }

    /// The regular expression that splits text before merges apply.
    pub fn split_regex(&self) -> &str {
        self.split_regex.get_or_init(|| self.raw.split_regex())
    }

    /// The underlying resource.
    pub fn inner(&self) -> &RawTokenizer {
        &self.raw
    }
}

/// A function of the raw bindings takes a `&Tokenizer` too.
impl Deref for Tokenizer {
    type Target = RawTokenizer;

    fn deref(&self) -> &RawTokenizer {
        self.inner()
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer").finish_non_exhaustive()
    }
}
