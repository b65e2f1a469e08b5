//! One text that follows a grammar, token by token. One owner at a time; any thread.
use super::{Compiled, Error, ErrorKind, Mask};
use llguidance::api::StopReason;
use std::sync::Arc;

pub struct Matcher {
    compiled: Arc<Compiled>,
    state: llguidance::Matcher,
    /// Tokens taken so far.
    taken: usize,
    /// A token that ends a text was taken where nothing else could follow: the crate has already ended there.
    ended: bool,
}

impl Matcher {
    pub(super) fn new(compiled: Arc<Compiled>) -> Self {
        Matcher {
            state: compiled.start(),
            compiled,
            taken: 0,
            ended: false,
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
        let fit = self.state.try_consume_tokens(tokens).map_err(failed)?;
        let ends = fit + 1 == tokens.len()
            && !self.ended
            && self.is_terminated()
            && self.compiled.is_stop(tokens[fit]);
        if ends {
            self.ended = true;
        } else if fit < tokens.len() {
            self.state.rollback(fit).map_err(failed)?;
            let place = self.taken + fit;
            let what = match self.taken + fit {
                0 => "cannot begin the text",
                _ => "does not fit the grammar",
            };
            return Err(Error::new(
                ErrorKind::Refused,
                format!("token {} {what} (position {place})", tokens[fit]),
            ));
        }
        self.taken += tokens.len();
        Ok(())
    }

    /// The tokens that may come next. If the text is complete and nothing may follow, these are the tokens that end it.
    pub fn mask(&mut self) -> Result<Mask, Error> {
        self.check()?;
        match self.state.compute_mask_or_eos() {
            Ok(mask) => Ok(Mask(mask)),
            // Nothing may follow, which was found while the mask was made.
            Err(_) if self.state.stop_reason() == StopReason::NoExtensionBias => {
                self.state.compute_mask_or_eos().map(Mask).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Whether the text may end here.
    pub fn is_complete(&mut self) -> bool {
        self.is_terminated() || self.state.is_accepting().unwrap_or(false)
    }

    /// Whether the text has ended: nothing may follow, or a token that ends a text was taken.
    pub fn is_terminated(&self) -> bool {
        self.state.is_stopped() && !self.state.is_error()
    }

    /// The tokens that must come next, as the tokenizer writes them. Empty where there is a choice.
    pub fn forced_tokens(&mut self) -> Vec<u32> {
        self.state.compute_ff_tokens()
    }

    /// Takes back the last `tokens` tokens.
    pub fn rollback(&mut self, tokens: usize) -> Result<(), Error> {
        if tokens > self.taken {
            return Err(Error::invalid(format!(
                "cannot take back {tokens} tokens: the matcher has taken {}",
                self.taken
            )));
        }
        self.check()?;
        let end = usize::from(self.ended && tokens > 0);
        self.state.rollback(tokens - end).map_err(failed)?;
        self.ended &= tokens == 0;
        self.taken -= tokens;
        Ok(())
    }

    /// Goes back to the beginning of a text, also after an error.
    pub fn reset(&mut self) {
        if self.state.is_error() || self.state.reset().is_err() {
            self.state = self.compiled.start();
        }
        self.taken = 0;
        self.ended = false;
    }

    /// Another matcher at the same place.
    pub fn fork(&self) -> Matcher {
        Matcher {
            compiled: self.compiled.clone(),
            state: self.state.clone(),
            taken: self.taken,
            ended: self.ended,
        }
    }

    /// The number of tokens taken so far.
    pub fn taken(&self) -> usize {
        self.taken
    }

    fn check(&self) -> Result<(), Error> {
        match self.state.get_error() {
            Some(error) => Err(failed(error)),
            None => Ok(()),
        }
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
