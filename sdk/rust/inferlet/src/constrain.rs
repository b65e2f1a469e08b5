//! Constraints: which tokens may come next.

use std::fmt;

use crate::inference::{Grammar, Matcher};
use crate::model::Model;
use crate::Result;

/// Restricts a generation, step by step.
pub trait Constrain: Send {
    /// Advances by the tokens that were just accepted (none at the first call), then returns the mask of the next
    /// position: BRLE over the vocabulary, true = allowed. An empty mask restricts nothing.
    fn step(&mut self, accepted: &[u32]) -> &[u32];

    /// Whether the text is complete: the generation ends before the next step.
    fn is_finished(&self) -> bool {
        false
    }

    /// The reason why the constraint cannot go on, if there is one. The generation fails with this text.
    fn failure(&self) -> Option<&str> {
        None
    }

    /// The matcher that is the whole constraint, if it is one. The engine can apply it by itself.
    fn matcher(&self) -> Option<&Matcher> {
        None
    }

    /// The name of this constraint in errors.
    fn name(&self) -> String {
        let path = std::any::type_name::<Self>();
        path.rsplit("::").next().unwrap_or(path).to_string()
    }
}

impl<C: Constrain + ?Sized> Constrain for Box<C> {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        (**self).step(accepted)
    }
    fn is_finished(&self) -> bool {
        (**self).is_finished()
    }
    fn failure(&self) -> Option<&str> {
        (**self).failure()
    }
    fn matcher(&self) -> Option<&Matcher> {
        (**self).matcher()
    }
    fn name(&self) -> String {
        (**self).name()
    }
}

/// A description of the wanted text that can be made into a constraint.
pub trait Schema {
    /// Makes the constraint for this model. Fails if the schema cannot be compiled.
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint>;
}

/// Any JSON text.
#[derive(Clone, Copy, Debug)]
pub struct AnyJson;

/// JSON that a JSON Schema describes.
#[derive(Clone, Copy, Debug)]
pub struct JsonSchema<'a>(pub &'a str);

/// Text that a regular expression matches.
#[derive(Clone, Copy, Debug)]
pub struct Regex<'a>(pub &'a str);

/// Text of a grammar in Lark's notation, or in GBNF.
#[derive(Clone, Copy, Debug)]
pub struct Ebnf<'a>(pub &'a str);

impl Schema for AnyJson {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        GrammarConstraint::json(model).checked()
    }
}

impl Schema for JsonSchema<'_> {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        GrammarConstraint::from_json_schema(self.0, model)
    }
}

impl Schema for Regex<'_> {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        GrammarConstraint::from_regex(self.0, model)
    }
}

impl Schema for Ebnf<'_> {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        GrammarConstraint::from_ebnf(self.0, model)
    }
}

impl<S: Schema + ?Sized> Schema for Box<S> {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        (**self).build_constraint(model)
    }
}

impl Schema for &Grammar {
    fn build_constraint(&self, model: &Model) -> Result<GrammarConstraint> {
        GrammarConstraint::from_grammar(self, model).checked()
    }
}

/// A constraint that follows a grammar.
pub struct GrammarConstraint {
    matcher: Matcher,
    name: &'static str,
    mask: Vec<u32>,
    failure: Option<String>,
}

impl GrammarConstraint {
    /// Follows this matcher.
    pub fn new(matcher: Matcher) -> Self {
        let failure = matcher.failure().map(str::to_string);
        Self { matcher, name: "grammar", mask: Vec::new(), failure }
    }

    fn named(grammar: &Grammar, model: &Model, name: &'static str) -> Self {
        Self { name, ..Self::from_grammar(grammar, model) }
    }

    /// Fails if the engine could not compile the grammar.
    fn checked(self) -> Result<Self> {
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Restricts the text to any JSON document. If the engine has no grammar compiler, the generation fails.
    pub fn json(model: &Model) -> Self {
        Self::named(&Grammar::json(), model, "JSON")
    }

    /// Restricts the text to a compiled grammar.
    pub fn from_grammar(grammar: &Grammar, model: &Model) -> Self {
        Self::new(Matcher::new(grammar, model.tokenizer()))
    }

    /// Restricts the text to JSON of a JSON Schema (its text).
    pub fn from_json_schema(schema: &str, model: &Model) -> Result<Self> {
        Self::named(&Grammar::from_json_schema(schema)?, model, "JSON schema").checked()
    }

    /// Restricts the text to a regular expression, matched as a whole.
    pub fn from_regex(pattern: &str, model: &Model) -> Result<Self> {
        Self::named(&Grammar::from_regex(pattern)?, model, "regular expression").checked()
    }

    /// Restricts the text to a Lark or GBNF grammar.
    pub fn from_ebnf(source: &str, model: &Model) -> Result<Self> {
        Self::named(&Grammar::from_ebnf(source)?, model, "EBNF grammar").checked()
    }
}

impl fmt::Debug for GrammarConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrammarConstraint")
            .field("name", &self.name)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl Constrain for GrammarConstraint {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        if !accepted.is_empty() && self.failure.is_none() {
            self.failure = self.matcher.accept_tokens(accepted).err();
        }
        self.mask = match self.failure {
            Some(_) => Vec::new(),
            None => self.matcher.next_token_logit_mask(),
        };
        &self.mask
    }

    fn is_finished(&self) -> bool {
        self.matcher.is_terminated()
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn matcher(&self) -> Option<&Matcher> {
        Some(&self.matcher)
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}
