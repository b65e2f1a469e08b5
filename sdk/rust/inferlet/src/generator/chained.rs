//! A generation that the engine runs by itself: the engine feeds each chosen token into the next pass and wakes
//! the program for several tokens at once. The tokens, and the context after each batch, are the same as in the
//! loop over steps.

use std::cell::RefCell;
use std::rc::Rc;

use crate::executor::ready;
use crate::pass::Request;
use crate::pie::plus::chains::{Chain, Ending};
use crate::spec::Drafter;
use crate::Result;

use super::cut::cut;
use super::state::{Options, State};

/// A running chain. Dropping it ends the chain, and the context drops the tokens that were not taken.
pub(super) struct Chained<'ctx> {
    state: Rc<RefCell<State<'ctx>>>,
    chain: Chain,
    /// The input of the first pass; None after that pass has chosen a token.
    input: Option<Vec<u32>>,
    tokens_before: u32,
    ended: bool,
}

impl Options {
    /// Whether the program decides nothing between two tokens. The engine advances matchers by itself.
    fn chainable(&self) -> bool {
        self.constraints.iter().all(|constraint| constraint.matcher().is_some())
            && self.each_step.is_empty()
            && !matches!(self.drafter, Drafter::Custom(_))
    }
}

impl<'ctx> Chained<'ctx> {
    /// Starts a chain. Returns None if the generation has ended, or has to be run step by step. That is also the case
    /// if the engine refuses the chain: the configuration may have switched chains off, and if there is any other
    /// reason, a single pass reports it as well. The tokens `ends` also end the chain, and are accepted.
    pub fn start(shared: &Rc<RefCell<State<'ctx>>>, ends: &[u32]) -> Result<Option<Self>> {
        let mut state = shared.borrow_mut();
        if !state.options.chainable() {
            return Ok(None);
        }
        state.advance(true)?;
        if state.done {
            return Ok(None);
        }
        let mut plan = state.plan(state.ctx.seq_len())?;
        let sampled = (plan.tokens.len() as u32).saturating_sub(1);
        plan.requests.push(Some(Request::sample(&[sampled], state.options.sampler)));
        let max_tokens = state.room().try_into().unwrap_or(u32::MAX);
        let stops = [&state.options.stops, ends].concat();
        state.expect();
        let tokens_before = state.ctx.inner().working_page_token_count();
        let matchers = state.matchers();
        let Ok(chain) = plan.submit_chain(state.ctx, &matchers, max_tokens, &stops) else {
            return Ok(None);
        };
        let input = Some(state.ctx.take_buffer());
        Ok(Some(Self { state: shared.clone(), chain, input, tokens_before, ended: false }))
    }

    /// Returns the tokens accepted since the last call, or None at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u32>>> {
        while !self.ended {
            let progress = self.chain.take().inspect_err(|_| self.undo())?;
            self.ended = progress.ended.is_some();
            self.state.borrow_mut().done |= progress.ended == Some(Ending::Complete);
            if !progress.tokens.is_empty() {
                return Ok(Some(self.accept(progress.tokens)));
            }
            if progress.ended == Some(Ending::Cancelled) {
                return Err(
                    "the generation was cancelled: its context was used for another pass".into()
                );
            }
            if !self.ended {
                ready(self.chain.pollable()).await;
            }
        }
        Ok(None)
    }

    /// The engine has computed all of these tokens but the last, which waits in the buffer.
    fn accept(&mut self, mut tokens: Vec<u32>) -> Vec<u32> {
        let state = &mut *self.state.borrow_mut();
        let last = tokens.len() - 1;
        let cut = cut(&tokens, &state.options.stops, state.room());
        tokens.truncate(cut.kept);
        state.done |= cut.ends;
        state.generated += tokens.len();
        state.steps += last as u64 + 1;
        if self.input.take().is_none() {
            state.ctx.shorten_buffer(1); // the last token of the batch before
        }
        state.ctx.append(tokens.get(last..).unwrap_or_default());
        tokens
    }

    /// Takes the first pass back if it has failed or was cancelled.
    fn undo(&mut self) {
        let Some(input) = self.input.take() else { return };
        let ctx = &mut *self.state.borrow_mut().ctx;
        let left = ctx.inner().working_page_token_count().saturating_sub(self.tokens_before);
        if left > 0 {
            ctx.inner().truncate_working_page_tokens(left);
        }
        ctx.put_back(input);
    }
}

impl Drop for Chained<'_> {
    fn drop(&mut self) {
        self.undo();
    }
}
