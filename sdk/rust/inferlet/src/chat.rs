//! Chat turns as the model's own template writes them.

use crate::model::Model;
use crate::pie::instruct::chat as raw;
use crate::Result;

/// Returns the tokens of a system message.
pub fn system(model: &Model, text: &str) -> Vec<u32> {
    raw::system(model.inner(), text)
}

/// Returns the tokens of a user message.
pub fn user(model: &Model, text: &str) -> Vec<u32> {
    raw::user(model.inner(), text)
}

/// Returns the tokens of an assistant turn that is already written.
pub fn assistant(model: &Model, text: &str) -> Vec<u32> {
    raw::assistant(model.inner(), text)
}

/// Returns the tokens that open the model's own turn.
pub fn cue(model: &Model) -> Vec<u32> {
    raw::cue(model.inner())
}

/// Returns the tokens that close the model's own turn.
pub fn seal(model: &Model) -> Vec<u32> {
    raw::seal(model.inner())
}

/// Returns the ids of the tokens that end a turn or the text.
pub fn stop_tokens(model: &Model) -> Vec<u32> {
    raw::stop_tokens(model.inner())
}

/// The content of a batch of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Text that became visible.
    Delta(String),
    /// The turn has ended; its whole text.
    Done(String),
    /// Nothing to show yet.
    Idle,
    /// A control token that the text does not show. Text around it comes with the next `feed`.
    Interrupt(u32),
}

/// Turns tokens into visible text. Call `reset` between turns.
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

    /// Decodes a batch of tokens. An empty batch returns the text that an `Interrupt` has held back.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<Event> {
        Ok(match self.0.feed(tokens)? {
            raw::Event::Delta(text) if text.is_empty() => Event::Idle,
            raw::Event::Delta(text) => Event::Delta(text),
            raw::Event::Done(text) => Event::Done(text),
            raw::Event::Interrupt(token) => Event::Interrupt(token),
        })
    }

    /// Forgets the turn so far.
    pub fn reset(&mut self) {
        self.0.reset()
    }
}
