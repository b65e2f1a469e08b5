//! Grammars and their matchers, and the raw forward pass.

use crate::model::Tokenizer;
use crate::pie::core::inference as raw;
use crate::pie::plus::{constraints, fallible};
use crate::Result;

/// The parts of a raw forward pass. `Sampler` and `Output` are the engine's own types here:
/// [`crate::Sampler`] and [`crate::Output`] are for [`Context::forward`](crate::Context::forward).
pub use crate::pie::core::inference::{ForwardPass, FutureOutput, Output, Sampler, SlotOutput};

/// A compiled grammar.
///
/// If the engine cannot compile it, a constructor that returns no `Result` keeps the error for the [`Matcher`].
pub struct Grammar(Result<raw::Grammar>);

impl Grammar {
    pub(crate) fn wrap(raw: raw::Grammar) -> Self {
        Self(Ok(raw))
    }

    pub(crate) fn failed(error: String) -> Self {
        Self(Err(error))
    }

    /// JSON that conforms to a JSON Schema.
    pub fn from_json_schema(schema: &str) -> Result<Grammar> {
        raw::Grammar::from_json_schema(schema).map(Self::wrap)
    }

    /// Any JSON text.
    pub fn json() -> Grammar {
        Self(fallible::json_grammar())
    }

    /// Text that a regular expression matches.
    pub fn from_regex(pattern: &str) -> Result<Grammar> {
        raw::Grammar::from_regex(pattern).map(Self::wrap)
    }

    /// Text of a Lark or GBNF grammar.
    pub fn from_ebnf(source: &str) -> Result<Grammar> {
        raw::Grammar::from_ebnf(source).map(Self::wrap)
    }

    /// The underlying resource. Panics if the grammar could not be compiled.
    pub fn inner(&self) -> &raw::Grammar {
        self.0.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl std::fmt::Display for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Ok(grammar) => f.write_str(&grammar.to_string()),
            Err(error) => f.write_str(error),
        }
    }
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("failure", &self.0.as_ref().err()).finish_non_exhaustive()
    }
}

/// Walks a grammar token by token.
///
/// If the engine cannot make a matcher, it allows no token, and `accept_tokens` returns the error.
pub struct Matcher(Result<raw::Matcher>);

impl Matcher {
    /// Makes a matcher at the beginning of the grammar.
    pub fn new(grammar: &Grammar, tokenizer: &Tokenizer) -> Matcher {
        let grammar = grammar.0.as_ref().map_err(String::clone);
        Self(grammar.and_then(|grammar| fallible::create_matcher(grammar, tokenizer.inner())))
    }

    pub(crate) fn wrap(raw: raw::Matcher) -> Self {
        Self(Ok(raw))
    }

    pub(crate) fn failed(error: String) -> Self {
        Self(Err(error))
    }

    /// The reason why there is no matcher, if there is none.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.0.as_ref().err().map(String::as_str)
    }

    pub(crate) fn raw(&self) -> Result<&raw::Matcher> {
        self.0.as_ref().map_err(String::clone)
    }

    /// Advances by these tokens, all of them or none. Fails on a token that the grammar does not allow here.
    pub fn accept_tokens(&mut self, tokens: &[u32]) -> Result<()> {
        self.raw()?.accept_tokens(tokens)
    }

    /// Makes another matcher at the same place of the text.
    pub fn fork(&self) -> Result<Matcher> {
        constraints::fork(self.raw()?).map(Self::wrap)
    }

    /// Takes back the last `tokens` tokens. Fails if the matcher has accepted fewer.
    pub fn rollback(&mut self, tokens: u32) -> Result<()> {
        constraints::rollback(self.raw()?, tokens)
    }

    /// Returns the tokens that must come next; none if there is a choice.
    pub fn forced_tokens(&self) -> Result<Vec<u32>> {
        constraints::forced_tokens(self.raw()?)
    }

    /// Returns the tokens that may come next, as a BRLE over the vocabulary. If the text is complete, these are the
    /// tokens that end a turn.
    pub fn next_token_logit_mask(&self) -> Vec<u32> {
        match &self.0 {
            Ok(matcher) => matcher.next_token_logit_mask(),
            Err(_) => vec![u32::MAX],
        }
    }

    /// Whether the text is complete and nothing can follow.
    pub fn is_terminated(&self) -> bool {
        self.0.as_ref().is_ok_and(raw::Matcher::is_terminated)
    }

    /// Goes back to the beginning of the grammar.
    pub fn reset(&mut self) {
        if let Ok(matcher) = &self.0 {
            matcher.reset();
        }
    }

    /// The underlying resource. Panics if there is none.
    pub fn inner(&self) -> &raw::Matcher {
        self.0.as_ref().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl std::fmt::Debug for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matcher").field("failure", &self.failure()).finish_non_exhaustive()
    }
}
