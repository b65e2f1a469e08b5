//! One text that follows a grammar, token by token. One owner at a time; any thread.
use super::history::{self, Trail};
use super::lexer_masks::{Forced, Place};
use super::walk::Walk;
use super::{limits, Compiled, Error, ErrorKind, Mask};
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
    /// The tokens that may come next, if they were found before a mask was requested.
    next: Option<Next>,
    /// The memory that was allocated while tokens were taken.
    bytes: isize,
}

struct Next {
    mask: Mask,
    /// The tokens that must come. The mask allows the first one only.
    forced: Vec<u32>,
}

impl Matcher {
    pub(super) fn new(compiled: Arc<Compiled>) -> Self {
        Matcher {
            walk: compiled.start(),
            compiled,
            tokens: Vec::new(),
            trail: Trail::default(),
            ended: false,
            next: None,
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
        self.next = None;
        let fit = self.counted(|own| own.retried(|state| state.try_consume_tokens(tokens)))?;
        let ends = fit + 1 == tokens.len()
            && !self.ended
            && self.is_terminated()
            && self.compiled.is_stop(tokens[fit]);
        if ends {
            self.ended = true;
        } else if fit < tokens.len() {
            self.go_back(fit, self.known())?;
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

    /// The compiled grammar, which all its matchers share.
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }

    /// The tokens that may come next. If the text is complete and nothing may follow, these are the tokens that end it.
    pub fn mask(&mut self) -> Result<Mask, Error> {
        match self.next.take() {
            Some(next) => Ok(next.mask),
            None => Ok(self.find_next()?.mask),
        }
    }

    fn find_next(&mut self) -> Result<Next, Error> {
        self.check()?;
        let forces = self.compiled.forces();
        if let Some(known) = self.known_next(forces) {
            return Ok(known);
        }
        history::set_recent(self.recent());
        history::ask(Some(self.trail.question(&self.tokens)));
        let mask = self.retried(|state| {
            if forces && !state.is_stopped() {
                state.compute_ff_bytes(); // the parser takes them; the mask is made of them
            }
            match state.compute_mask_or_eos() {
                // The crate found that nothing may follow. Asked again, it allows the tokens that end a text.
                Err(_) if state.stop_reason() == StopReason::NoExtensionBias => {
                    state.compute_mask_or_eos()
                }
                answer => answer,
            }
        });
        let answer = history::take_answer();
        let forced = history::take_forced();
        let mask = mask?;
        self.walk.count_mask();
        if let Some(answer) = answer {
            self.trail.add(self.tokens.len(), answer.spot);
            if !answer.is_known {
                self.walk.masks.keep(answer.spot, &mask);
            }
        } else if forces && !self.walk.state.is_stopped() {
            if let Some(place) = self.place() {
                let (mask, tokens) = (mask.clone(), forced.clone());
                self.walk.masks.keep_forced(place, Forced { mask, tokens });
            }
        }
        Ok(Next {
            mask: Mask(mask),
            forced,
        })
    }

    /// The result that was found where another text was at the same place.
    fn known_next(&self, forces: bool) -> Option<Next> {
        if !forces || self.walk.state.is_stopped() {
            return None;
        }
        let known = self.walk.masks.forced_at(&self.place()?)?;
        Some(Next {
            mask: Mask(known.mask.clone()),
            forced: known.tokens.clone(),
        })
    }

    fn place(&self) -> Option<Place> {
        let question = self.trail.question(&self.tokens);
        self.walk.masks.place(question, self.recent())
    }

    /// The last tokens of the text, with which the tokenizer encodes what is forced.
    fn recent(&self) -> &[u32] {
        &self.tokens[self.tokens.len().saturating_sub(limits::CONTEXT)..]
    }

    /// Whether the text may end here.
    pub fn is_complete(&mut self) -> bool {
        self.is_terminated() || self.walk.is_accepting()
    }

    /// Whether the text has ended: nothing may follow, or a token that ends a text was taken.
    pub fn is_terminated(&self) -> bool {
        self.walk.state.is_stopped() && !self.walk.state.is_error()
    }

    /// The tokens that must come next, as the tokenizer writes them whatever follows. Empty where there is a choice.
    pub fn forced_tokens(&mut self) -> Vec<u32> {
        if !self.compiled.forces() || self.walk.state.is_stopped() {
            return Vec::new();
        }
        if self.next.is_none() && self.walk.is_forced() {
            self.next = self.find_next().ok();
        }
        let next = self.next.as_ref();
        next.map_or_else(Vec::new, |next| next.forced.clone())
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
        self.next = None;
        let end = usize::from(self.ended && tokens > 0);
        self.go_back(tokens - end, self.taken() - tokens)?;
        self.ended &= tokens == 0;
        self.tokens.truncate(self.tokens.len() - tokens);
        self.trail.go_back(self.tokens.len());
        Ok(())
    }

    /// Goes back to the beginning of a text, also after an error.
    pub fn reset(&mut self) {
        if self.walk.state.is_error() || self.go_back(self.known(), 0).is_err() {
            self.counted(|own| own.walk = own.compiled.start());
        }
        self.tokens.clear();
        self.trail = Trail::default();
        self.ended = false;
        self.next = None;
    }

    /// Another matcher at the same place.
    pub fn fork(&self) -> Matcher {
        let (mut fork, bytes) = memory::counted(|| Matcher {
            compiled: self.compiled.clone(),
            walk: self.walk.fork(),
            tokens: self.tokens.clone(),
            trail: self.trail.clone(),
            ended: self.ended,
            next: None,
            bytes: 0,
        });
        fork.bytes = bytes.max(0);
        fork
    }

    /// The number of tokens taken so far.
    pub fn taken(&self) -> usize {
        self.tokens.len()
    }

    /// The tokens that the crate has taken.
    fn known(&self) -> usize {
        self.tokens.len() - usize::from(self.ended)
    }

    /// Takes back the last `tokens` tokens of the crate, so that the first `kept` of the text stay.
    fn go_back(&mut self, tokens: usize, kept: usize) -> Result<(), Error> {
        if self.compiled.goes_back() {
            return self.walk.go_back(tokens).map_err(failed);
        }
        if tokens == 0 {
            return Ok(());
        }
        self.counted(|own| {
            let mut walk = own.compiled.start();
            let text = &own.tokens[..kept];
            walk.state.consume_tokens(text).map_err(failed)?;
            own.walk = walk;
            own.trail = Trail::default();
            Ok(())
        })
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
        walk.state
            .consume_tokens(&self.tokens[..self.known()])
            .map_err(failed)?;
        self.walk = walk;
        self.trail = Trail::default(); // of another lexer
        history::ask(None);
        work(&mut self.walk.state).map_err(failed)
    }
}

/// The error of a step that failed, usually because it exceeded the limits.
fn failed(error: impl std::fmt::Display) -> Error {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    if first.contains("NoExtensionBias") {
        return Error::invalid("no text of the grammar goes on from here");
    }
    Error::new(
        ErrorKind::TooLarge,
        format!("the grammar is too complex to follow the text here ({first})"),
    )
}
