//! The visible text of one choice: thoughts, calls and stop texts are taken out of what the model writes.

use crate::choices::Delta;
use crate::forms::Form;
use crate::options::Options;
use crate::scored::Scored;
use crate::stops::Stops;
use crate::thoughts::{Split, Thoughts};
use crate::tools::{without_mark, Calls};
use crate::visible::Visible;
use inferlet::prelude::*;
use std::collections::VecDeque;

/// The text of one choice, on its way from the model to the client.
pub struct Speech<'a> {
    pub thoughts: Option<Thoughts>,
    calls: Option<Calls<'a>>,
    visible: Visible,
    stops: Stops,
    pub stopped_by: Option<String>,
    /// Whether the answer is a tool call and nothing else. Then its text is not shown, not even if the call is cut off.
    is_call: bool,
    /// Log-probabilities of tokens that may still turn out to be thoughts.
    scored: VecDeque<Scored>,
}

impl<'a> Speech<'a> {
    pub fn new(options: &'a Options) -> Speech<'a> {
        let has_tools = !options.tools.callable.is_empty();
        let bare_calls = has_tools
            && ["{", "["]
                .iter()
                .any(|text| without_mark(&options.model, text));
        let thinks = options.splits_thoughts && matches!(options.form, Form::Text);
        Speech {
            thoughts: thinks.then(|| Thoughts::new(&options.model)),
            calls: has_tools.then(|| Calls::new(&options.model, &options.tools)),
            visible: Visible::new(bare_calls),
            stops: Stops::new(&options.stops),
            stopped_by: None,
            is_call: matches!(options.form, Form::Call(_)),
            scored: VecDeque::new(),
        }
    }

    /// Takes the next tokens, the text that became visible with them, and their log-probabilities if the client asked
    /// for them.
    pub fn take(&mut self, tokens: &[u32], text: String, scored: Vec<Scored>) -> Result<Delta> {
        self.scored.extend(scored);
        let pieces = match &mut self.thoughts {
            Some(thoughts) => thoughts.take(tokens, text)?,
            None => vec![Split::answer(tokens, text)],
        };
        self.show_all(pieces)
    }

    fn show_all(&mut self, pieces: Vec<Split>) -> Result<Delta> {
        let mut all = Delta::default();
        for piece in pieces {
            let shown = self.show(piece)?;
            all.text += &shown.text;
            all.thought += &shown.thought;
            all.tokens.extend(shown.tokens);
            if self.stopped_by.is_some() {
                break;
            }
        }
        Ok(all)
    }

    fn show(&mut self, split: Split) -> Result<Delta> {
        if let Some(calls) = &mut self.calls {
            calls.feed(&split.tokens)?;
        }
        let tokens = self.scores_of(&split);
        let (mut text, stop) = self.stops.push(&split.text);
        self.stopped_by = stop;
        if let Some(calls) = &self.calls {
            let called = !calls.found.is_empty();
            text = self.visible.push(&text, calls.is_assembling(), called);
            if self.is_call {
                text.clear();
            }
        }
        Ok(Delta {
            text,
            thought: split.thought,
            tokens,
            ..Delta::default()
        })
    }

    /// The log-probabilities of the next tokens, without the tokens of thoughts.
    fn scores_of(&mut self, split: &Split) -> Vec<Scored> {
        if split.hidden > 0 {
            self.scored.drain(..split.hidden.min(self.scored.len()));
            return Vec::new();
        }
        let count = split.tokens.len().min(self.scored.len());
        self.scored.drain(..count).collect()
    }

    /// Ends the text: returns the text that was held back, and the calls.
    pub fn end(&mut self) -> Result<Delta> {
        let mut last = Delta::default();
        if self.stopped_by.is_none() {
            if let Some(thoughts) = &mut self.thoughts {
                let rest = thoughts.rest()?;
                last = self.show_all(rest)?;
            }
        }
        let held = self.stops.rest();
        if let Some(calls) = &mut self.calls {
            last.calls = std::mem::take(&mut calls.found);
            if last.calls.is_empty() && !self.is_call {
                last.text += &self.visible.push(&held, false, false);
                last.text += &self.visible.rest();
            }
        } else {
            last.text += &held;
        }
        last.stopped_by = self.stopped_by.take();
        Ok(last)
    }
}
