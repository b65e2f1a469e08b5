//! The chat turns of a context, so that the next turn is written as the model's template writes it at that place.
//!
//! A template renders whole conversations, and the text that a turn adds depends on the turns before it. Turns whose
//! tokens are still at the end of the buffer are pending: they are rendered together, so until the first flush the
//! buffer is the template's own rendering. Any other use of the buffer settles them; after that only their kinds are
//! known.

use crate::model::Model;
use crate::pie::plus::turns::{extend, Kind, Turn};
use crate::Result;

#[derive(Clone, Default)]
pub(crate) struct Turns {
    settled: Vec<Kind>,
    pending: Vec<Turn>,
    /// Where the pending turns' tokens begin and end in the buffer.
    start: usize,
    end: usize,
}

impl Turns {
    /// The turns of a context whose history is unknown. It is taken to be in the middle of a conversation.
    pub fn in_the_middle() -> Self {
        Self { settled: vec![Kind::User, Kind::Assistant], ..Self::default() }
    }

    /// Adds a turn's tokens to the buffer, and renders the pending turns again. On an error the buffer stays as it was.
    pub fn add(&mut self, model: &Model, buffer: &mut Vec<u32>, turn: Turn) -> Result<()> {
        if !self.pending.is_empty() && buffer.len() != self.end {
            self.settle();
        }
        if self.pending.is_empty() {
            self.start = buffer.len();
        }
        self.pending.push(turn);
        let tokens = extend(model.inner(), &self.settled, &self.pending).or_else(|_| {
            // The turns cannot be rendered together, for example because they are too many. Render the new one alone.
            let turn = self.pending.pop().expect("it was just added");
            self.settle();
            self.start = buffer.len();
            let tokens = extend(model.inner(), &self.settled, std::slice::from_ref(&turn));
            self.pending.push(turn);
            tokens
        });
        match tokens {
            Ok(tokens) => {
                buffer.truncate(self.start);
                buffer.extend(tokens);
                self.end = buffer.len();
                Ok(())
            }
            Err(error) => {
                self.pending.pop();
                Err(error)
            }
        }
    }

    /// Settles the pending turns: from here on only their kinds are known.
    pub fn settle(&mut self) {
        self.settled.extend(self.pending.drain(..).map(|turn| turn.kind));
    }

    /// Closes the model's turn.
    pub fn seal(&mut self) {
        self.settle();
        match self.settled.last_mut() {
            Some(last @ Kind::Cue) => *last = Kind::Assistant,
            Some(Kind::Assistant) => {}
            _ => self.settled.push(Kind::Assistant),
        }
    }
}

pub(crate) fn turn(kind: Kind, text: &str) -> Turn {
    Turn { kind, text: text.to_string(), name: String::new(), tools: Vec::new() }
}
