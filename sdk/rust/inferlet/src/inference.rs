//! Grammars and their matchers, and the raw forward pass.

use crate::model::Tokenizer;
use crate::pie::core::inference as raw;
use crate::Result;

pub use crate::pie::core::inference::{ForwardPass, FutureOutput, SlotOutput};

/// A compiled grammar.
pub struct Grammar(raw::Grammar);

impl Grammar {
    pub(crate) fn wrap(raw: raw::Grammar) -> Self {
        Self(raw)
    }

    pub fn from_json_schema(schema: &str) -> Result<Grammar> {
        raw::Grammar::from_json_schema(schema).map(Self)
    }

    /// Any JSON text.
    pub fn json() -> Grammar {
        Self(raw::Grammar::json())
    }

    pub fn from_regex(pattern: &str) -> Result<Grammar> {
        raw::Grammar::from_regex(pattern).map(Self)
    }

    /// A Lark or GBNF grammar.
    pub fn from_ebnf(source: &str) -> Result<Grammar> {
        raw::Grammar::from_ebnf(source).map(Self)
    }

    /// The underlying resource.
    pub fn inner(&self) -> &raw::Grammar {
        &self.0
    }
}

impl std::fmt::Display for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.to_string())
    }
}

/// Walks a grammar token by token.
pub struct Matcher(raw::Matcher);

impl Matcher {
    pub(crate) fn wrap(raw: raw::Matcher) -> Self {
        Self(raw)
    }

    pub fn new(grammar: &Grammar, tokenizer: &Tokenizer) -> Matcher {
        Self(raw::Matcher::new(&grammar.0, tokenizer.inner()))
    }

    /// Fails on a token that the grammar does not allow here.
    pub fn accept_tokens(&mut self, tokens: &[u32]) -> Result<()> {
        self.0.accept_tokens(tokens)
    }

    /// The tokens allowed next, as a BRLE over the vocabulary.
    pub fn next_token_logit_mask(&self) -> Vec<u32> {
        self.0.next_token_logit_mask()
    }

    /// Whether the text is complete and nothing can follow.
    pub fn is_terminated(&self) -> bool {
        self.0.is_terminated()
    }

    pub fn reset(&mut self) {
        self.0.reset()
    }

    /// The underlying resource.
    pub fn inner(&self) -> &raw::Matcher {
        &self.0
    }
}
