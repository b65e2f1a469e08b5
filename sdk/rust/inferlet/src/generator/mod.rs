//! Token generation: a loop over forward passes that the program can collect, step through or override.
//!
//! A [`Generator`] and its [`GenStep`]s share one state, so the body of a loop may use both: it may inspect the
//! generator before a step runs, and accept tokens after it has run.
//!
//! If the program decides nothing between two tokens, a collector lets the engine run the loop (`chained`).

mod chained;
mod collect;
mod cut;
mod schema;
mod state;
mod step;
mod thoughts;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::adapter::Adapter;
use crate::chat;
use crate::constrain::{Constrain, Schema};
use crate::context::Context;
use crate::output::ProbeHandle;
use crate::pass::Request;
use crate::sample::{Probe, Sampler};
use crate::spec::{Drafter, Speculator};
use crate::Result;

pub(crate) use schema::schema_value;
use state::{Options, State};
pub use step::GenStep;

/// Continues a context token by token, until the model ends its turn or the text, or until a
/// [`stop`](Generator::stop) token or [`max_tokens`](Generator::max_tokens) ends the generation. Call `ctx.cue()`
/// before it to open the model's turn.
#[must_use = "a generator does nothing until it is collected or stepped"]
pub struct Generator<'ctx> {
    state: Rc<RefCell<State<'ctx>>>,
}

impl<'ctx> Generator<'ctx> {
    pub(crate) fn new(ctx: &'ctx mut Context, sampler: Sampler) -> Self {
        Self { state: Rc::new(RefCell::new(State::new(ctx, sampler))) }
    }

    fn with(self, set: impl FnOnce(&mut Options)) -> Self {
        {
            let state = &mut *self.state.borrow_mut();
            set(&mut state.options);
            state.expects_anew = true;
            state.mask = None;
        }
        self
    }

    /// Ends the generation after `n` accepted tokens. `n` may be of any integer type. A
    /// negative number panics.
    #[track_caller]
    pub fn max_tokens(self, n: impl Count) -> Self {
        let n = count("max_tokens", n);
        self.with(|options| options.max_tokens = Some(n))
    }

    /// Adds stop tokens. The generation ends at them, and they are not accepted. A generator begins with the
    /// model's own stop tokens, which end a turn or the text.
    pub fn stop(self, tokens: &[u32]) -> Self {
        self.with(|options| options.stops.extend_from_slice(tokens))
    }

    /// Does the same as [`stop`](Generator::stop).
    pub fn add_stop(self, tokens: &[u32]) -> Self {
        self.stop(tokens)
    }

    /// Removes the model's own stop tokens, so that the generation goes on past the end of a turn.
    pub fn ignore_eos(self) -> Self {
        let own = chat::stop_tokens(self.state.borrow().ctx.model());
        self.with(|options| options.stops.retain(|token| !own.contains(token)))
    }

    /// Restricts the tokens. Several constraints apply together.
    pub fn constrain(self, constraint: impl Constrain + 'static) -> Self {
        self.with(|options| options.constraints.push(Box::new(constraint)))
    }

    /// Restricts the text to a schema, regular expression or grammar.
    pub fn constrain_with(self, schema: impl Schema) -> Result<Self> {
        let constraint = schema.build_constraint(self.state.borrow().ctx.model())?;
        Ok(self.constrain(constraint))
    }

    /// Lets a model that reasons think before the document of `collect_json`. A model whose turn begins with its thoughts
    /// always does.
    pub fn think_first(self) -> Self {
        self.with(|options| options.thinks_first = true)
    }

    /// Sets a fixed mask for every step, beside the constraints: BRLE over the vocabulary, true = allowed.
    pub fn logit_mask(self, brle: &[u32]) -> Self {
        self.with(|options| options.logit_mask = brle.to_vec())
    }

    /// Sets a drafter of your own, whose drafts each step verifies. The generation fails if
    /// [`system_speculation`](Generator::system_speculation) is set too.
    pub fn speculator(self, speculator: impl Speculator + 'static) -> Self {
        self.with(|options| {
            options.two_drafters |= matches!(options.drafter, Drafter::Engine { .. });
            options.drafter = Drafter::Custom(Box::new(speculator));
        })
    }

    /// Uses the engine's own drafter. The generation fails if a [`speculator`](Generator::speculator) is set too.
    pub fn system_speculation(self) -> Self {
        let (tokens, positions) = Default::default();
        self.with(|options| {
            options.two_drafters |= matches!(options.drafter, Drafter::Custom(_));
            options.drafter = Drafter::Engine { tokens, positions };
        })
    }

    /// Applies an adapter to every pass.
    pub fn adapter(self, adapter: &Adapter) -> Self {
        self.with(|options| options.adapter = Some(adapter.clone()))
    }

    /// Perturbs the adapter by an Evolution Strategies seed in every step.
    pub fn zo_seed(self, seed: i64) -> Self {
        self.with(|options| options.zo_seed = Some(seed))
    }

    /// Makes the random choices reproducible: step i draws from `seed + i`.
    pub fn seed(self, seed: u64) -> Self {
        self.with(|options| options.seed = Some(seed))
    }

    /// Says how many tokens you expect, from which the engine computes bids. `n` may be of any integer type. A
    /// negative number panics.
    #[track_caller]
    pub fn horizon(self, n: impl Count) -> Self {
        let n = count("horizon", n);
        self.with(|options| options.horizon = Some(n))
    }

    /// Probes every step. Index 0 is the row that is sampled.
    pub fn probe_each_step<P: Probe>(&mut self, index: u32, probe: P) -> ProbeHandle<P> {
        let each_step = &mut self.state.borrow_mut().options.each_step;
        each_step.push(Request::probe(index, &probe));
        // Request 0 is the step's own sampler.
        ProbeHandle::new(each_step.len())
    }

    /// True after the generation has ended.
    pub fn is_done(&self) -> bool {
        self.state.borrow().done
    }

    /// Tokens accepted so far.
    pub fn tokens_generated(&self) -> usize {
        self.state.borrow().generated
    }

    /// Overrides the bid of the next step, like `ctx.set_bid`.
    pub fn set_bid(&self, value: f64) {
        self.state.borrow().ctx.set_bid(value)
    }

    /// Returns the next step, or None if the generation has ended.
    #[allow(clippy::should_implement_trait)] // `Iterator::next` could not report an error this way
    pub fn next(&mut self) -> Result<Option<GenStep<'ctx>>> {
        let mut state = self.state.borrow_mut();
        if state.open_step {
            return Err("the last step was not executed: step.execute().await?".into());
        }
        let engine_matches = state.engine_matches();
        state.advance(engine_matches)?;
        if state.done {
            return Ok(None);
        }
        state.open_step = true;
        Ok(Some(GenStep::new(self.state.clone(), state.options.each_step.len())))
    }

    /// Accepts these tokens in place of those that the step's sampler chose, or after `clear_sampler()`. Returns
    /// the tokens that are left after stop tokens and the limit.
    pub fn accept(&mut self, tokens: &[u32]) -> Vec<u32> {
        self.state.borrow_mut().accept(tokens)
    }
}

/// An integer that counts tokens. Programs read counts from their input as the type that suits them.
pub trait Count: TryInto<usize> + Copy + fmt::Display {}

impl<N: TryInto<usize> + Copy + fmt::Display> Count for N {}

/// Numbers that are too large for the guest's memory are no limit.
#[track_caller]
fn count(name: &str, n: impl Count) -> usize {
    n.try_into().unwrap_or_else(|_| {
        assert!(!n.to_string().starts_with('-'), "{name} is {n}, but it must be 0 or more");
        usize::MAX
    })
}

impl fmt::Debug for Generator<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generator")
            .field("tokens_generated", &self.tokens_generated())
            .field("is_done", &self.is_done())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_integers_of_any_type() {
        assert_eq!(count("n", 7), 7); // a literal
        assert_eq!((count("n", 7u32), count("n", 7usize), count("n", 7u64)), (7, 7, 7));
        assert_eq!(count("n", u128::MAX), usize::MAX);
    }

    #[test]
    #[should_panic(expected = "max_tokens is -1, but it must be 0 or more")]
    fn negative_counts_are_named() {
        count("max_tokens", -1);
    }
}
