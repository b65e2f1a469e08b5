//! One forward pass, from its plan to its committed pages. `flush`, `Forward` and `Generator` share it.
//!
//! [`Plan::submit`] reserves pages and queues the pass, [`InFlight::output`] waits, [`InFlight::settle`]
//! commits the pages that are full. They are three functions so that the caller holds no borrow while it waits.

use crate::adapter::Adapter;
use crate::context::{Context, Extent};
use crate::executor::finish;
use crate::inference::Matcher;
use crate::pie::core::inference::{
    ForwardPass, FutureOutput, Output as RawOutput, Sampler as RawSampler, SlotOutput,
};
use crate::pie::plus::chains::{self, Chain};
use crate::pie::plus::constraints;
use crate::pie::plus::sampling;
use crate::pie::plus::steps::{self, Given};
use crate::pie::zo::zo;
use crate::sample::{Probe, Sampler};
use crate::Result;

/// A sampler or probe, and the rows that it reads.
#[derive(Clone)]
pub(crate) struct Request {
    pub rows: Vec<u32>,
    pub raw: RawSampler,
    pub slots: usize,
}

impl Request {
    pub fn sample(rows: &[u32], sampler: Sampler) -> Self {
        let slots = rows.len() * sampler.slots_per_row();
        Self { rows: rows.to_vec(), raw: sampler.to_raw(), slots }
    }

    pub fn probe(row: u32, probe: &impl Probe) -> Self {
        Self { rows: vec![row], raw: probe.to_raw(), slots: 1 }
    }
}

#[derive(Default)]
pub(crate) struct Plan {
    pub tokens: Vec<u32>,
    pub positions: Vec<u32>,
    /// How many of the last tokens are only scored; the context drops them after the pass.
    pub scored: u32,
    /// Drafts that the engine verifies after the tokens, and their positions. Each request then has as many slots as
    /// tokens were chosen.
    pub drafts: (Vec<u32>, Vec<u32>),
    pub attention: Vec<Vec<u32>>,
    pub logit_mask: Vec<u32>,
    /// None takes the place of a sampler that was cleared.
    pub requests: Vec<Option<Request>>,
    pub adapter: Option<Adapter>,
    pub zo_seed: Option<i64>,
    pub seed: Option<u64>,
    /// Whether the engine should draft the tokens after this pass.
    pub wants_drafts: bool,
}

impl Plan {
    /// Appends tokens that continue the sequence from `start`.
    pub fn input(&mut self, tokens: &[u32], start: u32) {
        self.tokens.extend_from_slice(tokens);
        self.positions.extend((start..).take(tokens.len()));
    }

    /// Where the slots of each request end in an output without drafts.
    pub fn slot_ends(&self) -> Vec<usize> {
        let mut end = 0;
        let slots = self.requests.iter().map(|request| {
            end += request.as_ref().map_or(0, |request| request.slots);
            end
        });
        slots.collect()
    }

    /// How many tokens the pass may leave in the context.
    fn room(&self) -> usize {
        self.tokens.len() + self.drafts.0.len()
    }

    pub fn submit(&self, ctx: &Context) -> Result<InFlight> {
        self.submit_behind(ctx, ctx.extent(), &[])
    }

    /// Queues the pass for a caller that knows the extent of the context. The engine applies the matchers.
    pub fn submit_behind(
        &self,
        ctx: &Context,
        extent: Extent,
        matchers: &[&Matcher],
    ) -> Result<InFlight> {
        let pass = self.build(ctx, extent, matchers)?;
        let output = Some(pass.execute()?);
        let slots = self.slot_ends().last().copied().unwrap_or(0);
        let (tokens, reserved) = (self.tokens.len() as u32, self.room() as u32);
        Ok(InFlight { output, _pass: Some(pass), slots, before: extent, tokens, reserved })
    }

    /// Queues the pass as the first of a chain.
    pub fn submit_chain(
        &self,
        ctx: &Context,
        matchers: &[&Matcher],
        max_tokens: u32,
        stops: &[u32],
    ) -> Result<Chain> {
        let pass = self.build(ctx, ctx.extent(), matchers)?;
        chains::run(&pass, max_tokens, stops)
    }

    fn build(&self, ctx: &Context, extent: Extent, matchers: &[&Matcher]) -> Result<ForwardPass> {
        let raw = ctx.inner();
        reserve(ctx, extent, self.room())?;
        let pass = ForwardPass::new(ctx.model().inner());
        pass.context(raw);
        if !self.tokens.is_empty() {
            pass.input_tokens(&self.tokens, &self.positions);
        }
        if !self.attention.is_empty() {
            pass.attention_mask(&self.attention);
        }
        if !self.logit_mask.is_empty() {
            pass.logit_mask(&self.logit_mask);
        }
        for request in self.requests.iter().flatten() {
            pass.sampler(&request.rows, &request.raw);
        }
        if let Some(adapter) = &self.adapter {
            pass.adapter(adapter.inner());
        }
        if let Some(seed) = self.zo_seed {
            zo::adapter_seed(&pass, seed);
        }
        if let Some(seed) = self.seed {
            sampling::seed(&pass, seed);
        }
        for matcher in matchers {
            constraints::constrain(&pass, matcher.raw()?)?;
        }
        if !self.drafts.0.is_empty() {
            pass.input_speculative_tokens(&self.drafts.0, &self.drafts.1);
        }
        if self.wants_drafts {
            pass.output_speculative_tokens(true);
        }
        Ok(pass)
    }
}

/// Reserves the pages for `tokens` more tokens.
fn reserve(ctx: &Context, extent: Extent, tokens: usize) -> Result<()> {
    let pages = extent.pages_with(tokens as u32, ctx.page_size());
    match pages - extent.working_pages {
        0 => Ok(()),
        missing => ctx.inner().reserve_working_pages(missing),
    }
}

/// A pass over a few tokens that samples the last row and reads nothing else. It takes fewer host calls.
pub(crate) struct Step<'a> {
    pub tokens: &'a [u32],
    pub logit_mask: &'a [u32],
    pub seed: Option<u64>,
    pub sampler: Sampler,
}

impl Step<'_> {
    pub fn submit_behind(&self, ctx: &Context, extent: Extent) -> Result<InFlight> {
        reserve(ctx, extent, self.tokens.len())?;
        let raw = self.sampler.to_raw();
        let output = steps::begin(ctx.inner(), self.tokens, self.logit_mask, self.seed, &raw)?;
        let slots = self.sampler.slots_per_row();
        let tokens = self.tokens.len() as u32;
        let output = Some(output);
        Ok(InFlight { output, _pass: None, slots, before: extent, tokens, reserved: tokens })
    }
}

/// A queued pass. Fields are dropped in order: the output before the pass that it came from.
pub(crate) struct InFlight {
    /// None after the output was taken.
    output: Option<FutureOutput>,
    _pass: Option<ForwardPass>,
    /// The least number of slots of its output.
    slots: usize,
    before: Extent,
    /// The number of tokens that it adds to the context.
    tokens: u32,
    /// The number of tokens for which pages were reserved.
    reserved: u32,
}

impl InFlight {
    pub async fn output(&mut self) -> Result<RawOutput> {
        let output = self.output.take().expect("asked for once");
        let output = match finish(output).await? {
            Given::Output(output) => output,
            Given::Token(token) => RawOutput {
                slots: vec![SlotOutput::Token(token)],
                spec_tokens: Vec::new(),
                spec_positions: Vec::new(),
            },
        };
        if output.slots.len() < self.slots {
            let (given, asked) = (output.slots.len(), self.slots);
            return Err(format!("the engine answered {given} of the {asked} slots of a pass"));
        }
        Ok(output)
    }

    /// Adds the drafts that the engine kept to the tokens of the pass. Each request has one more slot for each of them.
    pub fn keep_drafts(&mut self, output: &RawOutput, requests: usize) -> usize {
        let kept = (output.slots.len() - self.slots) / requests.max(1);
        self.tokens += kept as u32;
        kept
    }

    /// Drops the last `dropped` tokens of the pass. Then commits the full working pages, but none that holds one of the
    /// last `held_back` tokens, which the caller may still drop. Returns the extent of the context.
    pub fn settle(&self, ctx: &Context, dropped: u32, held_back: u32) -> Result<Extent> {
        if dropped > 0 {
            ctx.inner().truncate_working_page_tokens(dropped);
        }
        let Extent { committed_pages, working_tokens, .. } = self.before;
        let working_tokens = (working_tokens + self.tokens).saturating_sub(dropped);
        let pages = working_tokens.saturating_sub(held_back) / ctx.page_size();
        if pages > 0 {
            ctx.inner().commit_working_pages(pages)?;
        }
        Ok(Extent {
            committed_pages: committed_pages + pages,
            working_pages: self.before.pages_with(self.reserved, ctx.page_size()) - pages,
            working_tokens: working_tokens - pages * ctx.page_size(),
        })
    }

    /// Called after a failure. Drops the tokens of the pass from the context, unless the engine has done so.
    pub fn undo(&self, ctx: &Context) {
        let tokens = ctx.inner().working_page_token_count();
        let left = tokens.saturating_sub(self.before.working_tokens);
        if left > 0 {
            ctx.inner().truncate_working_page_tokens(left);
        }
    }
}
