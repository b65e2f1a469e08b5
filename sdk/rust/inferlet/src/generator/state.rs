//! The state that a generator and its steps share.

use crate::adapter::Adapter;
use crate::brle;
use crate::chat;
use crate::constrain::Constrain;
use crate::context::{Context, Extent};
use crate::inference::Matcher;
use crate::output::{Output, SampleHandle};
use crate::pass::{InFlight, Plan, Request, Step};
use crate::pie::core::inference::Output as RawOutput;
use crate::sample::{check_ranges, Sampler};
use crate::spec::Drafter;
use crate::Result;

use super::cut::cut;

/// A step over more tokens is a prompt, for which the cost of a few host calls does not matter.
const FEW_TOKENS: usize = 16;

/// The options that the builder methods set.
pub(super) struct Options {
    pub sampler: Sampler,
    pub max_tokens: Option<usize>,
    pub stops: Vec<u32>,
    pub constraints: Vec<Box<dyn Constrain>>,
    pub logit_mask: Vec<u32>,
    pub drafter: Drafter,
    /// The program has chosen both its own drafter and the engine's.
    pub two_drafters: bool,
    pub adapter: Option<Adapter>,
    pub zo_seed: Option<i64>,
    pub seed: Option<u64>,
    pub horizon: Option<usize>,
    pub thinks_first: bool,
    /// Row 0 is the sampled one.
    pub each_step: Vec<Request>,
}

pub(super) struct State<'ctx> {
    pub ctx: &'ctx mut Context,
    pub options: Options,
    pub generated: usize,
    pub done: bool,
    /// The program has a step that it has not begun to execute.
    pub open_step: bool,
    pub steps: u64,
    /// Accepted tokens that the constraints and the speculator have not been told about.
    fresh: Vec<u32>,
    /// The tokens that the last step accepted by itself, while the program may still override them.
    auto: Option<Auto>,
    /// The mask of the next step; None while it is not known.
    pub mask: Option<Vec<u32>>,
    /// The extent of the context, if it is known without asking the engine. The generator borrows the context, so
    /// nothing else changes it.
    extent: Option<Extent>,
    /// The speculator was told that the generation has ended.
    was_reset: bool,
    /// The engine does not know yet how long this generation will be, or it has changed by more than one token a pass.
    pub expects_anew: bool,
    /// The last step's pass. It is dropped after the next pass is queued, when the engine has work to do.
    spent: Option<InFlight>,
}

/// The state that is needed to take a step's own choice back.
struct Auto {
    buffered: usize,
    drafts_in_context: u32,
}

/// The options that a step adds to the generator's own.
pub(super) struct StepRequests {
    pub samples: bool,
    pub each_step: usize,
    pub probes: Vec<Request>,
}

/// A queued step.
pub(super) struct Submitted {
    pub pass: InFlight,
    input: Vec<u32>,
    /// How many tokens were drafted.
    drafted: usize,
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
            two_drafters: false,
            adapter: None,
            zo_seed: None,
            seed: None,
            horizon: None,
            thinks_first: false,
            each_step: Vec::new(),
        };
        Self {
            ctx,
            options,
            generated: 0,
            done: false,
            open_step: false,
            steps: 0,
            fresh: Vec::new(),
            auto: None,
            mask: None,
            extent: None,
            was_reset: false,
            expects_anew: true,
            spent: None,
        }
    }

    /// Before a step or a chain: tells the constraints and the speculator what was accepted, and works out the mask,
    /// unless the engine applies the constraints, which are matchers then.
    pub fn advance(&mut self, engine_matches: bool) -> Result<()> {
        self.ctx.check()?;
        if self.options.two_drafters {
            return Err("speculator and system_speculation exclude each other: choose one".into());
        }
        if !self.options.sampler.chooses() {
            let sampler = self.options.sampler;
            return Err(format!(
                "Sampler::{sampler:?} chooses no token; use it with ctx.forward()"
            ));
        }
        check_ranges(&self.options.sampler.to_raw())?;
        for probe in &self.options.each_step {
            check_ranges(&probe.raw)?;
        }
        self.auto = None;
        let fresh = std::mem::take(&mut self.fresh);
        self.done |= self.options.max_tokens.is_some_and(|max| self.generated >= max);
        if !self.done {
            self.advance_constraints(&fresh, engine_matches)?;
        }
        if let Drafter::Custom(speculator) = &mut self.options.drafter {
            if !fresh.is_empty() {
                speculator.accept(&fresh);
            }
            if self.done && !std::mem::replace(&mut self.was_reset, true) {
                speculator.reset();
            }
        }
        Ok(())
    }

    fn advance_constraints(&mut self, fresh: &[u32], engine_matches: bool) -> Result<()> {
        if self.mask.is_some() && fresh.is_empty() {
            return Ok(());
        }
        let mut mask = self.options.logit_mask.clone();
        // The text is complete when all grammars say so. One that has ended before allows the end only.
        let (mut grammars, mut complete) = (0, 0);
        for constraint in &mut self.options.constraints {
            if !engine_matches {
                mask = brle::and(&mask, constraint.step(fresh));
            } else if let (Some(matcher), false) = (constraint.matcher(), fresh.is_empty()) {
                matcher.raw()?.accept_tokens(fresh)?;
            }
            if let Some(failure) = constraint.failure() {
                return Err(failure.to_string());
            }
            let is_finished = constraint.is_finished();
            match constraint.matcher() {
                Some(_) => {
                    (grammars, complete) = (grammars + 1, complete + usize::from(is_finished))
                }
                None => self.done |= is_finished,
            }
        }
        self.done |= grammars > 0 && complete == grammars;
        if !self.done && brle::is_none(&mask) {
            return Err(self.nothing_allowed());
        }
        self.mask = (!engine_matches).then_some(mask);
        Ok(())
    }

    /// Whether the engine applies the constraints to the steps. It does where tokens are drafted, because a mask holds for
    /// one position only.
    pub fn engine_matches(&self) -> bool {
        let mut constraints = self.options.constraints.iter();
        !matches!(self.options.drafter, Drafter::None)
            && constraints.all(|constraint| constraint.matcher().is_some())
    }

    /// The matchers behind the constraints. A constraint of the program's own has none.
    pub fn matchers(&self) -> Vec<&Matcher> {
        self.options.constraints.iter().filter_map(|constraint| constraint.matcher()).collect()
    }

    fn nothing_allowed(&self) -> String {
        let mut names: Vec<String> = self.options.constraints.iter().map(|c| c.name()).collect();
        if !self.options.logit_mask.is_empty() {
            names.push("the logit mask".into());
        }
        let (position, names) = (self.generated, names.join(", "));
        format!("no token is allowed at position {position} of the text by all of: {names}")
    }

    /// Queues a step: the buffer is its input, its last row is sampled.
    pub fn submit(&mut self, step: &StepRequests) -> Result<Submitted> {
        self.expect();
        let extent = self.extent.take().unwrap_or_else(|| self.ctx.extent());
        if let Some(pass) = self.submit_short(step, extent) {
            let slot_ends = vec![self.options.sampler.slots_per_row()];
            return Ok(self.submitted(pass?, 0, slot_ends, true));
        }
        let start = extent.committed_pages * self.ctx.page_size() + extent.working_tokens;
        let mut plan = self.plan(start)?;
        let sampled = (plan.tokens.len() as u32).saturating_sub(1);

        // Probes of the sampled row read the drafts too; one of another row cannot.
        let probes: Vec<Request> =
            self.options.each_step[..step.each_step].iter().chain(&step.probes).cloned().collect();
        let of_the_row = probes.iter().all(|request| request.rows == [0]);
        let may_draft = step.samples && !plan.tokens.is_empty() && of_the_row;
        let (drafts, mut positions) = if may_draft { self.draft()? } else { Default::default() };
        if positions.is_empty() {
            positions = (start + sampled + 1..).take(drafts.len()).collect();
        }
        let drafted = drafts.len();
        let fit = self.room().saturating_sub(1);
        plan.drafts = (drafts, positions);
        plan.drafts.0.truncate(fit);
        plan.drafts.1.truncate(fit);

        plan.requests.push(step.samples.then(|| Request::sample(&[sampled], self.options.sampler)));
        for request in probes {
            let rows = request.rows.iter().map(|row| row + sampled).collect();
            plan.requests.push(Some(Request { rows, ..request }));
        }

        let matchers = if self.engine_matches() { self.matchers() } else { Vec::new() };
        let pass = plan.submit_behind(self.ctx, extent, &matchers)?;
        Ok(self.submitted(pass, drafted, plan.slot_ends(), step.samples))
    }

    /// Returns None if the step needs more than a short step offers.
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
        drafted: usize,
        slot_ends: Vec<usize>,
        samples: bool,
    ) -> Submitted {
        self.spent = None;
        self.steps += 1;
        Submitted { pass, input: self.ctx.take_buffer(), drafted, slot_ends, samples }
    }

    /// A pass over the buffer, which continues the sequence from `start`; nothing is read yet.
    pub fn plan(&self, start: u32) -> Result<Plan> {
        // A generation may begin after what was flushed: it samples the last position.
        if self.ctx.buffer().is_empty() && (self.steps > 0 || start == 0) {
            return Err(match self.steps {
                0 => "empty input: nothing to continue from. Append tokens or call cue() before generate()",
                _ => "empty input: the last step's tokens were not accepted. Call accept() after a step without sampler",
            }
            .into());
        }
        let mut plan = Plan {
            logit_mask: self.mask.clone().unwrap_or_else(|| self.options.logit_mask.clone()),
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

    /// The guesses to verify in this step, and their positions. Beside a constraint of the program's own there are none:
    /// its mask holds for one position.
    fn draft(&mut self) -> Result<(Vec<u32>, Vec<u32>)> {
        let several_draws = self.options.sampler.slots_per_row() > 1;
        if !self.engine_matches() || several_draws || self.room() <= 1 {
            return Ok(Default::default());
        }
        let (tokens, positions) = match &mut self.options.drafter {
            Drafter::None => Default::default(),
            Drafter::Custom(speculator) => speculator.draft(),
            Drafter::Engine { tokens, positions } => {
                (std::mem::take(tokens), std::mem::take(positions))
            }
        };
        match positions.len() {
            0 => Ok((tokens, positions)),
            n if n == tokens.len() => Ok((tokens, positions)),
            n => Err(format!("draft() returned {} tokens but {n} positions", tokens.len())),
        }
    }

    /// Undoes a step that has failed or was cancelled.
    pub fn undo(&mut self, submitted: Submitted) {
        submitted.pass.undo(self.ctx);
        self.ctx.put_back(submitted.input);
        self.steps -= 1;
    }

    /// Called after a step has run. Accepts the tokens that its sampler chose, and commits full pages.
    pub fn settle(&mut self, submitted: Submitted, raw: RawOutput) -> Result<Output> {
        let Submitted { mut pass, drafted, mut slot_ends, samples, .. } = submitted;
        if let Drafter::Engine { tokens, positions } = &mut self.options.drafter {
            *tokens = raw.spec_tokens.clone();
            *positions = raw.spec_positions.clone();
        }
        let matched = pass.keep_drafts(&raw, slot_ends.len());
        slot_ends.iter_mut().enumerate().for_each(|(i, end)| *end += matched * (i + 1));
        self.steps += matched as u64; // each chosen token counts as one step
        let sampler = SampleHandle(0);
        let mut output = Output::new(raw, slot_ends, samples.then_some(sampler));
        if !samples {
            self.extent = Some(pass.settle(self.ctx, 0, 0)?);
            self.spent = Some(pass);
            return Ok(output);
        }

        let draws = self.options.sampler.slots_per_row();
        let mut chosen: Vec<u32> = output.tokens_at(sampler).into_iter().step_by(draws).collect();
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
        let dropped = (matched - drafts_in_context) as u32;
        self.extent = Some(pass.settle(self.ctx, dropped, drafts_in_context as u32)?);
        self.spent = Some(pass);
        let accepted = matched.min(cut.kept);
        if let (Drafter::Custom(speculator), true) = (&mut self.options.drafter, accepted < drafted)
        {
            speculator.rollback((drafted - accepted) as u32);
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
