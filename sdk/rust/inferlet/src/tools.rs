//! Tools in the model's native format.

use crate::inference::{Grammar, Matcher};
use crate::model::Model;
use crate::pie::instruct::tool_use as raw;
use crate::pie::plus::calls::assembling;
use crate::pie::plus::fallible;
use crate::Result;

/// What a batch of tokens meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// No call is complete; [`Decoder::is_assembling`] tells whether one has begun.
    Start,
    /// A complete call: the tool's name and its arguments as JSON.
    Call(String, String),
}

/// Finds tool calls. Call `reset` between turns.
///
/// Where the model's format of tool calls is unknown, `feed` returns an error.
pub struct Decoder(Result<raw::Decoder>);

impl Decoder {
    /// A decoder for one turn of this model.
    pub fn new(model: &Model) -> Self {
        Self(fallible::create_tool_decoder(model.inner()))
    }

    /// Decodes a batch of tokens. When the batch completes several calls, the first one is returned, and each
    /// following `feed`, also of an empty batch, returns the next.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<Event> {
        Ok(match self.0.as_ref().map_err(String::clone)?.feed(tokens)? {
            raw::Event::Start => Event::Start,
            raw::Event::Call((name, args)) => Event::Call(name, args),
        })
    }

    /// Whether a call has begun, or a complete call waits for the next `feed`.
    pub fn is_assembling(&self) -> bool {
        self.0.as_ref().is_ok_and(assembling)
    }

    /// Forgets the turn so far.
    pub fn reset(&mut self) {
        if let Ok(decoder) = &self.0 {
            decoder.reset();
        }
    }
}

/// Tokens that tell the model which tools (JSON schemas) it has.
pub fn equip_prefix<S: AsRef<str>>(model: &Model, schemas: &[S]) -> Result<Vec<u32>> {
    raw::equip(model.inner(), &owned(schemas))
}

/// Tokens that give a tool's result back to the model.
pub fn answer_prefix(model: &Model, name: &str, result_json: &str) -> Vec<u32> {
    raw::answer(model.inner(), name, result_json)
}

/// The call in a finished text, if there is one: (name, arguments as JSON).
pub fn parse_call(model: &Model, text: &str) -> Option<(String, String)> {
    let tokens = model.tokenizer().encode(text);
    match Decoder::new(model).feed(&tokens) {
        Ok(Event::Call(name, args)) => Some((name, args)),
        _ => None,
    }
}

/// A grammar of the model's native call format; None where it has none.
pub fn native_grammar<S: AsRef<str>>(model: &Model, schemas: &[S]) -> Option<Grammar> {
    raw::format(model.inner(), &owned(schemas)).map(Grammar::wrap)
}

/// A matcher over the native call format, for `GrammarConstraint::new`; None where the model has none.
pub fn native_matcher<S: AsRef<str>>(model: &Model, schemas: &[S]) -> Option<Matcher> {
    fallible::create_tool_matcher(model.inner(), &owned(schemas)).ok().map(Matcher::wrap)
}

fn owned<S: AsRef<str>>(schemas: &[S]) -> Vec<String> {
    schemas.iter().map(|schema| schema.as_ref().to_string()).collect()
}
