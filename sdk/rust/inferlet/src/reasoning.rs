//! The model's reasoning, apart from its answer.

use crate::model::Model;
use crate::pie::instruct::reasoning as raw;
use crate::Result;

/// The content of a batch of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// No reasoning in these tokens.
    Idle,
    /// A reasoning block begins.
    Start,
    /// Reasoning text.
    Delta(String),
    /// The block ends; its whole text.
    End(String),
}

/// Follows reasoning blocks. Call `reset` between turns.
pub struct Decoder(raw::Decoder);

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Makes a decoder for one turn of this model.
    pub fn new(model: &Model) -> Self {
        Self(raw::create_decoder(model.inner()))
    }

    /// Decodes a batch of tokens. An empty batch returns the text that an earlier event has held back.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<Event> {
        Ok(match self.0.feed(tokens)? {
            raw::Event::Start => Event::Start,
            raw::Event::Delta(text) if text.is_empty() => Event::Idle,
            raw::Event::Delta(text) => Event::Delta(text),
            raw::Event::Complete(text) => Event::End(text),
        })
    }

    /// Forgets the turn so far.
    pub fn reset(&mut self) {
        self.0.reset()
    }
}
