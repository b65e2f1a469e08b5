//! Which chat turns a context has, so that the next one is written as the model's template writes it there.
//!
//! A template renders whole conversations: where a turn stands changes what it adds. Turns whose tokens are still the
//! end of the buffer are pending and are rendered together, so while nothing is flushed the buffer is the template's
//! own rendering. Anything else that touches the buffer settles them: from then on only their kinds are known.

use crate::model::Model;
use crate::pie::plus::turns::{extend, Kind, Turn};
use crate::{chat, tools, Result};

#[derive(Clone, Default)]
pub(crate) struct Turns {
    settled: Vec<Kind>,
    pending: Vec<Turn>,
    /// Where the pending turns' tokens begin and end in the buffer.
    start: usize,
    end: usize,
}

impl Turns {
    /// Of a context whose turns nobody knows.
    pub fn in_the_middle() -> Self {
        Self { settled: vec![Kind::User, Kind::Assistant], ..Self::default() }
    }

    /// Adds a turn's tokens to the buffer, and writes those of the pending ones anew.
    pub fn add(&mut self, model: &Model, buffer: &mut Vec<u32>, turn: Turn) -> Result<()> {
        if !self.pending.is_empty() && buffer.len() != self.end {
            self.settle();
        }
        if self.pending.is_empty() {
            self.start = buffer.len();
        }
        self.pending.push(turn);
        let tokens = extend(model.inner(), &self.settled, &self.pending).or_else(|_| {
            // The template refuses these turns together: the new one by itself.
            let turn = self.pending.pop().expect("it was just added");
            self.settle();
            self.start = buffer.len();
            let tokens = alone(model, &turn);
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

    /// The buffer goes its own way: only the kinds of the turns are known from here on.
    pub fn settle(&mut self) {
        self.settled.extend(self.pending.drain(..).map(|turn| turn.kind));
    }

    /// The model's turn is closed.
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

fn alone(model: &Model, turn: &Turn) -> Result<Vec<u32>> {
    Ok(match turn.kind {
        Kind::System => chat::system(model, &turn.text),
        Kind::User => chat::user(model, &turn.text),
        Kind::Assistant => chat::assistant(model, &turn.text),
        Kind::Tools => return tools::equip_prefix(model, &turn.tools),
        Kind::Answer => tools::answer_prefix(model, &turn.name, &turn.text),
        Kind::Cue => chat::cue(model),
    })
}
