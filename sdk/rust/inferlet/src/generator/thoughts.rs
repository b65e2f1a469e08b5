//! A document that thoughts may precede. The engine knows how the model marks its thoughts.

use crate::model::Model;
use crate::pie::plus::thoughts::{marks, Format};
use crate::Result;

/// The marks of a model's reasoning.
pub(super) struct Thoughts(Format);

impl Thoughts {
    /// None if the model has no marks.
    pub fn of(model: &Model) -> Option<Thoughts> {
        marks(model.inner()).map(Thoughts)
    }

    /// Whether the model's turn begins inside of its thoughts.
    pub fn begun(&self) -> bool {
        self.0.begins_inside
    }

    /// The Lark grammar of a document of this JSON Schema, after thoughts if there are any.
    pub fn grammar(&self, schema: &str) -> String {
        let thoughts = if self.begun() { "thoughts" } else { "thoughts?" };
        format!("start: {thoughts} document\n{}document: %json {schema}\n", self.0.rules)
    }

    /// The text after the thoughts.
    pub fn document(&self, model: &Model, tokens: &[u32]) -> Result<String> {
        let tokenizer = model.tokenizer();
        if let Some(id) = self.0.close_token {
            // No document can contain this token, but the marks around the thoughts may contain it.
            let end = tokens.iter().rposition(|token| *token == id).map_or(0, |index| index + 1);
            return tokenizer.decode_with(&tokens[end..], true);
        }
        let has_thoughts = self.begun() || tokenizer.decode(tokens)?.starts_with(&self.0.open);
        let text = tokenizer.decode_with(tokens, true)?;
        Ok(match text.split_once(&self.0.close) {
            _ if !has_thoughts => text,
            Some((_, document)) => document.to_string(),
            None => String::new(),
        })
    }
}
