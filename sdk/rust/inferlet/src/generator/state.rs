//! The state that a generator and its steps share.

use crate::adapter::Adapter;
use crate::brle;
use crate::chat;
use crate::constrain::Constrain;
use crate::context::{Context, Extent};
use crate::output::{Output, SampleHandle};
use crate::pass::{InFlight, Plan, Request, Step};
use crate::pie::core::inference::Output as RawOutput;
use crate::sample::Sampler;
use crate::spec::{confirmed, Drafter};
use crate::Result;

use super::cut::cut;

/// A step over more is a prompt, which takes its time anyway.
const FEW_TOKENS: usize = 16;

/// What the builder methods set.
pub(super) struct Options {
    pub sampler: Sampler,
    pub max_tokens: Option<usize>,
    pub stops: Vec<u32>,
    pub constraints: Vec<Box<dyn Constrain>>,
    pub logit_mask: Vec<u32>,
    pub drafter: Drafter,
    pub adapter: Option<Adapter>,
    pub zo_seed: Option<i64>,
    pub seed: Option<u64>,
    pub horizon: Option<usize>,
    /// Rows count from the sampled one.
    pub each_step: Vec<Request>,
}

pub(super) struct State<'ctx> {
    pub ctx: &'ctx mut Context,
    pub options: Options,
    pub generated: usize,
    pub done: bool,
    pub steps: u64,
    /// Accepted tokens that the constraints and the speculator have not been told about.
    fresh: Vec<u32>,
    /// What the last step accepted by itself, as long as the program may still override it.
    auto: Option<Auto>,
    /// The mask of the next step; None before the first one.
    mask: Option<Vec<u32>>,
    /// What the context holds, where that is known without asking: nobody else has it meanwhile.
    extent: Option<Extent>,
    /// The engine does not know yet how long this generation will be, or it has changed by more than one token a pass.
    pub expects_anew: bool,
    /// The last step's pass: let go once the next one is queued, when the engine has something to do.
    spent: Option<InFlight>,
}

/// How to take a step's own choice back.
struct Auto {
    buffered: usize,
    drafts_in_context: u32,
}

/// What a step adds to the generator's options.
pub(super) struct StepRequests {
    pub samples: bool,
    pub each_step: usize,
    pub probes: Vec<Request>,
}

/// A queued step.
pub(super) struct Submitted {
    pub pass: InFlight,
    input: Vec<u32>,
    drafts: Vec<u32>,
    slot_ends: Vec<usize>,
    samples: bool,
}

impl<'ctx> State<'ctx> {
    pub fn new(ctx: &'ctx mut Context, sampler: Sampler) -> Self {
        let options = Options {
            sampler,
            max_tokens: None,
            stops: chat::stop_tokens(ctx.model()),
            constraints: Vec::new(),
            logit_mask: Vec::new(),
            drafter: Drafter::None,
            adapter: None,
            zo_seed: None,
            seed: None,
            horizon: None,
            each_step: Vec::new(),
        };
        Self {
            ctx,
            options,
            generated: 0,
            done: false,
            steps: 0,
            fresh: Vec::new(),
            auto: None,
            mask: None,
            extent: None,
            expects_anew: true,
            spent: None,
        }
    }

    /// Before a step: tells the constraints and the speculator what was accepted, and works out the mask.
    pub fn advance(&mut self) -> Result<()> {
        self.ctx.check()?;
        self.auto = None;
        let fresh = std::mem::take(&mut self.fresh);
        if let (Drafter::Custom(speculator), false) = (&mut self.options.drafter, fresh.is_empty())
        {
            speculator.accept(&fresh);
        }
        self.done |= self.options.max_tokens.is_some_and(|max| self.generated >= max);
        if self.done || (self.mask.is_some() && fresh.is_empty()) {
            return Ok(());
        }
        let mut mask = self.options.logit_mask.clone();
        for constraint in &mut self.options.constraints {
            mask = brle::and(&mask, constraint.step(&fresh));
            if let Some(failure) = constraint.failure() {
                return Err(failure.to_string());
            }
            self.done |= constraint.is_finished();
        }
        self.mask = Some(mask);
        Ok(())
    }

    /// Queues a step: the buffer is its input, its last row is sampled.
    pub fn submit(&mut self, step: &StepRequests) -> Result<Submitted> {
        self.expect();
        let extent = self.extent.take().unwrap_or_else(|| self.ctx.extent());
        if let Some(pass) = self.submit_short(step, extent) {
            let slot_ends = vec![self.options.sampler.slots_per_row()];
            return Ok(self.submitted(pass?, Vec::new(), slot_ends, true));
        }
        let start = extent.committed_pages * self.ctx.page_size() + extent.working_tokens;
        let mut plan = self.plan(start)?;
        let sampled = plan.tokens.len() as u32 - 1;

        let (drafts, positions) = if step.samples { self.draft() } else { Default::default() };
        if positions.len() == drafts.len() {
            plan.tokens.extend_from_slice(&drafts);
            plan.positions.extend_from_slice(&positions);
        } else {
            plan.input(&drafts, start + sampled + 1);
        }

        let rows: Vec<u32> = (sampled..=sampled + drafts.len() as u32).collect();
        plan.requests.push(step.samples.then(|| Request::sample(&rows, self.options.sampler)));
        for request in &self.options.each_step[..step.each_step] {
            let rows = request.rows.iter().map(|row| row + sampled).collect();
            plan.requests.push(Some(Request { rows, ..request.clone() }));
        }
        plan.requests.extend(step.probes.iter().cloned().map(Some));

        let pass = plan.submit_behind(self.ctx, extent)?;
        Ok(self.submitted(pass, drafts, plan.slot_ends(), step.samples))
    }

    /// None: more is asked for than a short step has.
    fn submit_short(&self, step: &StepRequests, extent: Extent) -> Option<Result<InFlight>> {
        let Options { drafter, adapter, zo_seed, seed, sampler, .. } = &self.options;
        let plain = step.samples
            && step.each_step == 0
            && step.probes.is_empty()
            && matches!(drafter, Drafter::None)
            && adapter.is_none()
            && zo_seed.is_none();
        let tokens = self.ctx.buffer();
        if !plain || tokens.is_empty() || tokens.len() > FEW_TOKENS {
            return None;
        }
        let short = Step {
            tokens,
            logit_mask: self.mask.as_deref().unwrap_or_default(),
            seed: seed.map(|seed| seed.wrapping_add(self.steps)),
            sampler: *sampler,
        };
        Some(short.submit_behind(self.ctx, extent))
    }

    fn submitted(
        &mut self,
        pass: InFlight,
        drafts: Vec<u32>,
        slot_ends: Vec<usize>,
        samples: bool,
    ) -> Submitted {
        self.spent = None;
        self.steps += 1;
        Submitted { pass, input: self.ctx.take_buffer(), drafts, slot_ends, samples }
    }

    /// A pass over the buffer, which continues the sequence from `start`; nothing is read yet.
    pub fn plan(&self, start: u32) -> Result<Plan> {
        if self.ctx.buffer().is_empty() {
            return Err(match self.steps {
                0 => "empty input: nothing to continue from. Append tokens or call cue() before generate()",
                _ => "empty input: the last step's tokens were not accepted. Call accept() after a step without sampler",
            }
            .into());
        }
        let mut plan = Plan {
            logit_mask: self.mask.clone().unwrap_or_default(),
            adapter: self.options.adapter.clone(),
            zo_seed: self.options.zo_seed,
            seed: self.options.seed.map(|seed| seed.wrapping_add(self.steps)),
            wants_drafts: matches!(self.options.drafter, Drafter::Engine { .. }),
            ..Plan::default()
        };
        plan.input(self.ctx.buffer(), start);
        Ok(plan)
    }

    /// Tells the engine how many passes are still to come, where it does not know by counting them.
    pub fn expect(&mut self) {
        if !std::mem::take(&mut self.expects_anew) {
            return;
        }
        let left = |total: usize| Some(total.saturating_sub(self.generated).max(1) as f64);
        match (self.options.horizon, self.options.max_tokens) {
            (Some(horizon), _) => self.ctx.expect(left(horizon), 0.0),
            (None, Some(max)) => self.ctx.expect(left(max), 1.0),
            (None, None) => self.ctx.expect(None, 1.0),
        }
    }

    /// The guesses to verify in this step. A constraint's mask holds for one position, hence none with it.
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        let room =
            self.options.max_tokens.map_or(usize::MAX, |max| max.saturating_sub(self.generated));
        if !self.options.constraints.is_empty() || room <= 1 {
            return Default::default();
        }
        match &mut self.options.drafter {
            Drafter::None => Default::default(),
            Drafter::Custom(speculator) => speculator.draft(),
            Drafter::Engine { tokens, positions } => {
                (std::mem::take(tokens), std::mem::take(positions))
            }
        }
    }

    /// After a step has failed or was given up: as if it had not been.
    pub fn undo(&mut self, submitted: Submitted) {
        submitted.pass.undo(self.ctx);
        self.ctx.put_back(submitted.input);
        self.steps -= 1;
    }

    /// After a step has run: accepts what its sampler chose and settles the pages.
    pub fn settle(&mut self, submitted: Submitted, raw: RawOutput) -> Result<Output> {
        let Submitted { pass, drafts, slot_ends, samples, .. } = submitted;
        if let Drafter::Engine { tokens, positions } = &mut self.options.drafter {
            *tokens = raw.spec_tokens.clone();
            *positions = raw.spec_positions.clone();
        }
        let sampler = SampleHandle(0);
        let mut output = Output::new(raw, slot_ends, samples.then_some(sampler));
        if !samples {
            self.extent = Some(pass.settle(self.ctx, 0, 0)?);
            self.spent = Some(pass);
            return Ok(output);
        }

        let draws = self.options.sampler.slots_per_row();
        let mut chosen: Vec<u32> = output.tokens_at(sampler).into_iter().step_by(draws).collect();
        let matched = confirmed(&drafts, &chosen);
        chosen.truncate(matched + 1);
        let room = self.room();
        let cut = cut(&chosen, &self.options.stops, room);
        chosen.truncate(cut.kept);
        self.done = cut.ends;
        self.generated += cut.kept;
        self.expects_anew |= cut.kept > 1;

        // The last accepted token is left for the next pass, as it is without drafts. In front of a stop token
        // nothing is left: without drafts, the pass that chose the stop token has computed the token before it.
        let stopped = cut.ends && cut.kept < room;
        let computed = if stopped { cut.kept } else { cut.kept.saturating_sub(1) };
        let drafts_in_context = matched.min(computed);
        let dropped = (drafts.len() - drafts_in_context) as u32;
        self.extent = Some(pass.settle(self.ctx, dropped, drafts_in_context as u32)?);
        self.spent = Some(pass);
        let accepted = matched.min(cut.kept);
        if let (Drafter::Custom(speculator), true) =
            (&mut self.options.drafter, accepted < drafts.len())
        {
            speculator.rollback((drafts.len() - accepted) as u32);
        }
        let last = &chosen[drafts_in_context.min(chosen.len())..];
        self.ctx.append(last);
        self.auto =
            Some(Auto { buffered: last.len(), drafts_in_context: drafts_in_context as u32 });
        self.fresh.extend_from_slice(&chosen);
        output.tokens = chosen;
        Ok(output)
    }

    pub fn accept(&mut self, tokens: &[u32]) -> Vec<u32> {
        if let Some(auto) = self.auto.take() {
            self.ctx.shorten_buffer(auto.buffered);
            if auto.drafts_in_context > 0 {
                self.ctx.inner().truncate_working_page_tokens(auto.drafts_in_context);
                self.extent = None;
            }
            self.generated -= self.fresh.len();
            self.fresh.clear();
            self.done = false;
        }
        if self.done {
            return Vec::new();
        }
        let cut = cut(tokens, &self.options.stops, self.room());
        let accepted = &tokens[..cut.kept];
        self.done = cut.ends;
        self.generated += cut.kept;
        self.fresh.extend_from_slice(accepted);
        self.ctx.append(accepted);
        accepted.to_vec()
    }

    pub fn room(&self) -> usize {
        self.options.max_tokens.map_or(usize::MAX, |max| max.saturating_sub(self.generated))
    }
}
