//! One forward pass, built by hand.

use std::fmt;

use crate::adapter::Adapter;
use crate::context::Context;
pub use crate::output::{Output, ProbeHandle, SampleHandle};
use crate::pass::{Plan, Request};
use crate::sample::{check_ranges, Probe, Sampler};
use crate::Result;

/// A pass over a context. The SDK reserves pages, derives positions and commits full pages.
#[must_use = "a pass does nothing until it is executed"]
pub struct Forward<'ctx> {
    ctx: &'ctx mut Context,
    plan: Plan,
    start: u32,
    is_mixed_up: bool,
}

impl<'ctx> Forward<'ctx> {
    pub(crate) fn new(ctx: &'ctx mut Context) -> Self {
        let start = ctx.seq_len();
        Self { ctx, plan: Plan::default(), start, is_mixed_up: false }
    }

    /// Adds tokens that continue the sequence.
    pub fn input(&mut self, tokens: &[u32]) -> &mut Self {
        self.is_mixed_up |= self.plan.scored > 0 && !tokens.is_empty();
        let start = self.start + self.plan.tokens.len() as u32;
        self.plan.input(tokens, start);
        self
    }

    /// Adds tokens at positions of your choice, to be scored. The context drops them after the pass. They come
    /// after all `input` tokens.
    pub fn input_at(&mut self, tokens: &[u32], positions: &[u32]) -> &mut Self {
        self.plan.tokens.extend_from_slice(tokens);
        self.plan.positions.extend_from_slice(positions);
        self.plan.scored += tokens.len() as u32;
        self
    }

    /// Sets one mask for each token of the input; true = attend.
    pub fn attention_mask<M: AsRef<[u32]>>(&mut self, masks: &[M]) -> &mut Self {
        self.plan.attention = masks.iter().map(|mask| mask.as_ref().to_vec()).collect();
        self
    }

    /// Sets a mask over the vocabulary for every sampler of the pass; true = allowed.
    pub fn mask(&mut self, brle: &[u32]) -> &mut Self {
        self.plan.logit_mask = brle.to_vec();
        self
    }

    /// Chooses a token at each of these input rows.
    pub fn sample(&mut self, indices: &[u32], sampler: Sampler) -> SampleHandle {
        SampleHandle(self.request(Request::sample(indices, sampler)))
    }

    /// Reads the distribution at one input row.
    pub fn probe<P: Probe>(&mut self, index: u32, probe: P) -> ProbeHandle<P> {
        ProbeHandle::new(self.request(Request::probe(index, &probe)))
    }

    fn request(&mut self, request: Request) -> usize {
        self.plan.requests.push(Some(request));
        self.plan.requests.len() - 1
    }

    /// Applies an adapter to the pass.
    pub fn adapter(&mut self, adapter: &Adapter) -> &mut Self {
        self.plan.adapter = Some(adapter.clone());
        self
    }

    /// Perturbs the pass's adapter by an Evolution Strategies seed.
    pub fn zo_seed(&mut self, seed: i64) -> &mut Self {
        self.plan.zo_seed = Some(seed);
        self
    }

    /// Makes the random choices of this pass reproducible.
    pub fn seed(&mut self, seed: u64) -> &mut Self {
        self.plan.seed = Some(seed);
        self
    }

    /// The position of the first `input` token: the context's `seq_len` when the pass was begun.
    pub fn start_position(&self) -> u32 {
        self.start
    }

    /// How many tokens a KV page of the context holds.
    pub fn page_size(&self) -> u32 {
        self.ctx.page_size()
    }

    /// Runs the pass.
    pub async fn execute(self) -> Result<Output> {
        self.ctx.check()?;
        if self.is_mixed_up {
            return Err("input() after input_at(): put the tokens to be scored last".into());
        }
        if self.plan.tokens.len() != self.plan.positions.len() {
            let (tokens, positions) = (self.plan.tokens.len(), self.plan.positions.len());
            return Err(format!(
                "input_at() needs a position a token: {tokens} tokens, {positions} positions"
            ));
        }
        for request in self.plan.requests.iter().flatten() {
            check_ranges(&request.raw)?;
        }
        let mut pass = self.plan.submit(self.ctx)?;
        match pass.output().await {
            Ok(raw) => {
                pass.settle(self.ctx, self.plan.scored, 0)?;
                Ok(Output::new(raw, self.plan.slot_ends(), None))
            }
            Err(error) => {
                pass.undo(self.ctx);
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Forward<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").field("start_position", &self.start).finish_non_exhaustive()
    }
}
