//! Tells the thoughts of a model apart from its answer. Thoughts stand between marks, at the beginning of an answer.

use inferlet::model::Model;
use inferlet::reasoning::{Decoder, Event};
use inferlet::Result;

/// The longest text that may be the mark of thoughts. A longer one is the beginning of the answer.
const MARK_BYTES: usize = 32;

pub struct Thoughts {
    decoder: Decoder,
    state: State,
    /// The tokens that may still turn out to be the mark of thoughts.
    held: Vec<Split>,
    /// The bytes of the thoughts that were returned.
    sent: usize,
    /// The number of tokens that were thoughts.
    pub count: usize,
}

enum State {
    Unknown,
    Thinking,
    /// After the thoughts, before the first letter of the answer.
    Between,
    Answering,
}

/// The meaning of some tokens.
#[derive(Default)]
pub struct Split {
    pub thought: String,
    /// The text and the tokens of the answer.
    pub text: String,
    pub tokens: Vec<u32>,
    /// The number of tokens that were thoughts, or space behind them. They are no part of the answer.
    pub hidden: usize,
}

impl Split {
    pub fn answer(tokens: &[u32], text: String) -> Split {
        Split {
            thought: String::new(),
            text,
            tokens: tokens.to_vec(),
            hidden: 0,
        }
    }
}

impl Thoughts {
    pub fn new(model: &Model) -> Thoughts {
        Thoughts {
            decoder: Decoder::new(model),
            state: State::Unknown,
            held: Vec::new(),
            sent: 0,
            count: 0,
        }
    }

    /// Takes tokens, and the text that became visible with them. Returns what is known of these tokens and of those that
    /// were held back, in their order.
    pub fn take(&mut self, tokens: &[u32], text: String) -> Result<Vec<Split>> {
        match self.state {
            State::Unknown => {
                self.held.push(Split::answer(tokens, text));
                let event = self.decoder.feed(tokens)?;
                if event != Event::Idle {
                    let count: usize = self.held.drain(..).map(|piece| piece.tokens.len()).sum();
                    self.state = State::Thinking;
                    return Ok(vec![self.think(count, event)]);
                }
                let begun: String = self.held.iter().map(|piece| piece.text.as_str()).collect();
                if may_be_mark(&begun) {
                    return Ok(Vec::new());
                }
                self.state = State::Answering;
                Ok(std::mem::take(&mut self.held))
            }
            State::Thinking => {
                let event = self.decoder.feed(tokens)?;
                Ok(vec![self.think(tokens.len(), event)])
            }
            State::Between => {
                let mut split = Split::answer(tokens, text.trim_start().to_string());
                if split.text.is_empty() {
                    split.hidden = tokens.len();
                } else {
                    self.state = State::Answering;
                }
                Ok(vec![split])
            }
            State::Answering => Ok(vec![Split::answer(tokens, text)]),
        }
    }

    fn think(&mut self, tokens: usize, event: Event) -> Split {
        self.count += tokens;
        let thought = match event {
            Event::Idle | Event::Start => String::new(),
            Event::Delta(text) => text,
            Event::End(all) => {
                self.state = State::Between;
                all.get(self.sent..).unwrap_or_default().to_string()
            }
        };
        self.sent += thought.len();
        Split {
            thought,
            hidden: tokens,
            ..Split::default()
        }
    }

    /// Returns what was held back. Called at the end of the generation.
    pub fn rest(&mut self) -> Result<Vec<Split>> {
        if let State::Thinking = self.state {
            let event = self.decoder.feed(&[])?;
            return Ok(vec![self.think(0, event)]);
        }
        Ok(std::mem::take(&mut self.held))
    }
}

fn may_be_mark(text: &str) -> bool {
    let text = text.trim_start();
    text.is_empty() || (text.starts_with(['<', '[']) && text.len() <= MARK_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_short_and_come_first() {
        assert!(may_be_mark("") && may_be_mark("\n<thi") && may_be_mark("[THINK"));
        assert!(!may_be_mark("Let me <") && !may_be_mark(&format!("<{}", "x".repeat(MARK_BYTES))));
    }
}
