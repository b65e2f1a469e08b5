//! Grammars: what a text must look like, held token by token. The `llguidance` crate runs them.
//!
//! A [`Grammar`] is a checked source: a JSON Schema, any JSON, a regular expression, Lark, or GBNF, which is translated
//! to Lark. A [`Vocabulary`] compiles it for a tokenizer and keeps the result, which all its [`Matcher`]s share. A matcher
//! follows one text: it tells which tokens may come next, and takes the one that came.
//!
//! Sources are not trusted. They have limits (`limits.rs`), and every fault is an [`Error`] with its kind and its place.
mod blame;
mod budget;
mod compile;
mod error;
mod forced;
mod gbnf;
mod history;
mod lark;
mod lexer_masks;
mod limits;
mod mask;
mod matcher;
mod permits;
mod running;
mod schema;
mod source;
mod tokens;
mod vocabulary;
mod walk;

#[cfg(test)]
mod tests;

pub use compile::Compiled;
pub use error::{Error, ErrorKind, Place};
pub use mask::Mask;
pub use matcher::Matcher;
pub use source::{Grammar, Kind};
pub use vocabulary::Vocabulary;

pub(crate) use budget::Budget;
pub(crate) use schema::{checked as checked_schema, text_expressions};
