//! One text that follows a grammar, token by token. One owner at a time; any thread.
use super::history::{self, Trail};
use super::walk::Walk;
use super::{Compiled, Error, ErrorKind, Mask};
use crate::memory;
use llguidance::api::StopReason;
use std::sync::Arc;

pub struct Matcher {
    compiled: Arc<Compiled>,
    walk: Walk,
    /// The tokens taken so far.
    tokens: Vec<u32>,
    /// Where the masks were computed.
    trail: Trail,
    /// A token that ends a text was taken where nothing else could follow: the crate has already ended there.
    ended: bool,
    /// What taking tokens has allocated.
    bytes: isize,
}

impl Matcher {
    pub(super) fn new(compiled: Arc<Compiled>) -> Self {
        Matcher {
            walk: compiled.start(),
            compiled,
            tokens: Vec::new(),
            trail: Trail::default(),
            ended: false,
            bytes: 0,
        }
    }

    /// Takes tokens. If one of them does not fit, none is taken.
    pub fn accept(&mut self, tokens: &[u32]) -> Result<(), Error> {
        let size = self.compiled.vocab_size();
        if let Some(token) = tokens.iter().find(|token| **token >= size) {
            return Err(Error::invalid(format!(
                "token {token} is outside the vocabulary of {size} tokens"
            )));
        }
        self.check()?;
        let fit = self.counted(|own| own.retried(|state| state.try_consume_tokens(tokens)))?;
        let ends = fit + 1 == tokens.len()
            && !self.ended
            && self.is_terminated()
            && self.compiled.is_stop(tokens[fit]);
        if ends {
            self.ended = true;
        } else if fit < tokens.len() {
            self.walk.go_back(fit).map_err(failed)?;
            let place = self.taken() + fit;
            let what = match place {
                0 => "cannot begin the text",
                _ => "does not fit the grammar",
            };
            return Err(Error::new(
                ErrorKind::Refused,
                format!("token {} {what} (position {place})", tokens[fit]),
            ));
        }
        self.counted(|own| own.tokens.extend_from_slice(tokens));
        Ok(())
    }

    /// The memory that the text takes: the crate keeps the rows of its parser for all of it. A matcher whose text was
    /// taken back keeps the memory, and uses it again; a fork has only what it needs.
    pub fn bytes(&self) -> usize {
        self.bytes.unsigned_abs()
    }

    /// The tokens that may come next. If the text is complete and nothing may follow, these are the tokens that end it.
    pub fn mask(&mut self) -> Result<Mask, Error> {
        self.check()?;
        history::ask(Some(self.trail.question(&self.tokens)));
        let mask = self.retried(|state| match state.compute_mask_or_eos() {
            // Nothing may follow, which was found while the mask was made.
            Err(_) if state.stop_reason() == StopReason::NoExtensionBias => {
                state.compute_mask_or_eos()
            }
            answer => answer,
        });
        let answer = history::take_answer();
        let mask = mask?;
        self.walk.count_mask();
        if let Some(answer) = answer {
            self.trail.add(self.tokens.len(), answer.spot);
            if !answer.is_known {
                self.walk.masks.keep(answer.spot, &mask);
            }
        }
        Ok(Mask(mask))
    }

    /// Whether the text may end here.
    pub fn is_complete(&mut self) -> bool {
        self.is_terminated() || self.walk.is_accepting()
    }

    /// Whether the text has ended: nothing may follow, or a token that ends a text was taken.
    pub fn is_terminated(&self) -> bool {
        self.walk.state.is_stopped() && !self.walk.state.is_error()
    }

    /// The tokens that must come next, as the tokenizer writes them. Empty where there is a choice.
    pub fn forced_tokens(&mut self) -> Vec<u32> {
        self.walk.forced_tokens()
    }

    /// Takes back the last `tokens` tokens.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), Error> {
        if tokens > self.taken() {
            return Err(Error::invalid(format!(
                "cannot take back {tokens} tokens: the matcher has taken {}",
                self.taken()
            )));
        }
        self.check()?;
        let end = usize::from(self.ended && tokens > 0);
        self.walk.go_back(tokens - end).map_err(failed)?;
        self.ended &= tokens == 0;
        self.tokens.truncate(self.tokens.len() - tokens);
        self.trail.go_back(self.tokens.len());
        Ok(())
    }

    /// Goes back to the beginning of a text, also after an error.
    pub fn reset(&mut self) {
        let known = self.tokens.len() - usize::from(self.ended);
        if self.walk.state.is_error() || self.walk.go_back(known).is_err() {
            self.counted(|own| own.walk = own.compiled.start());
        }
        self.tokens.clear();
        self.trail = Trail::default();
        self.ended = false;
    }

    /// Another matcher at the same place.
    pub fn fork(&self) -> Matcher {
        let (mut fork, bytes) = memory::counted(|| Matcher {
            compiled: self.compiled.clone(),
            walk: self.walk.fork(),
            tokens: self.tokens.clone(),
            trail: self.trail.clone(),
            ended: self.ended,
            bytes: 0,
        });
        fork.bytes = bytes.max(0);
        fork
    }

    /// The number of tokens taken so far.
    pub fn taken(&self) -> usize {
        self.tokens.len()
    }

    /// Adds what the work allocates to the memory of the matcher.
    fn counted<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let (value, bytes) = memory::counted(|| work(&mut *self));
        self.bytes = self.bytes.saturating_add(bytes).max(0);
        value
    }

    fn check(&self) -> Result<(), Error> {
        match self.walk.state.get_error() {
            Some(error) => Err(failed(error)),
            None => Ok(()),
        }
    }

    /// Does something that may exceed the limits. If earlier texts have used them up, it is tried again without those.
    fn retried<T, E: std::fmt::Display>(
        &mut self,
        work: impl Fn(&mut llguidance::Matcher) -> Result<T, E>,
    ) -> Result<T, Error> {
        match work(&mut self.walk.state) {
            Ok(value) => return Ok(value),
            Err(error) if !self.walk.fail() => return Err(failed(error)),
            Err(_) => {}
        }
        let mut walk = self.compiled.start_alone();
        let known = &self.tokens[..self.tokens.len() - usize::from(self.ended)];
        walk.state.consume_tokens(known).map_err(failed)?;
        self.walk = walk;
        self.trail = Trail::default(); // of another lexer
        history::ask(None);
        work(&mut self.walk.state).map_err(failed)
    }
}

/// A step that cost more than the limits, as a rule.
fn failed(error: impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    Error::new(
        ErrorKind::TooLarge,
        format!("the grammar is too complex to follow the text here ({first})"),
    )
}
