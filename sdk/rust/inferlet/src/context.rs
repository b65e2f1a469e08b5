//! A token sequence with its KV cache.

use std::cell::Cell;

use crate::forward::Forward;
use crate::generator::Generator;
use crate::market::{default_bid, Expected};
use crate::model::Model;
use crate::pass::Plan;
use crate::pie::core::context::Context as RawContext;
use crate::pie::plus::turns::{Kind, Turn};
use crate::sample::Sampler;
use crate::turns::{turn, Turns};
use crate::{chat, scheduling, Result};

/// A token sequence with its KV cache, held in pages by the engine, and a buffer of tokens that have not been
/// computed yet. Dropping it gives the pages back.
pub struct Context {
    raw: RawContext,
    model: Model,
    page_size: u32,
    buffer: Vec<u32>,
    turns: Turns,
    bid: Cell<Bid>,
}

/// What a context holds, asked once a step.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub committed_pages: u32,
    pub working_pages: u32,
    pub working_tokens: u32,
}

impl Extent {
    pub fn pages(self) -> u32 {
        self.committed_pages + self.working_pages
    }

    /// Working pages that hold so many more tokens.
    pub fn pages_with(self, tokens: u32, page_size: u32) -> u32 {
        self.working_pages.max((self.working_tokens + tokens).div_ceil(page_size))
    }
}

/// Who decides the next pass's bid.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Bid {
    /// Nobody yet, or a decision that no longer holds.
    Stale,
    /// The generator, when the context held this many pages.
    Auto { value: f64, pages: u32 },
    /// The program, for one pass.
    Override(f64),
}

impl Context {
    fn wrap(raw: RawContext, model: &Model, buffer: Vec<u32>, turns: Turns) -> Self {
        let page_size = raw.tokens_per_page();
        Self { raw, model: model.clone(), page_size, buffer, turns, bid: Cell::new(Bid::Stale) }
    }

    /// An empty context.
    pub fn new(model: &Model) -> Result<Context> {
        Ok(Self::wrap(RawContext::create(model.inner())?, model, Vec::new(), Turns::default()))
    }

    /// A copy of a saved snapshot. The snapshot stays.
    pub fn open(model: &Model, name: &str) -> Result<Context> {
        let raw = RawContext::open(model.inner(), name)?;
        Ok(Self::wrap(raw, model, Vec::new(), Turns::in_the_middle()))
    }

    /// Moves a saved snapshot into a context. The snapshot is gone.
    pub fn take(model: &Model, name: &str) -> Result<Context> {
        let raw = RawContext::take(model.inner(), name)?;
        Ok(Self::wrap(raw, model, Vec::new(), Turns::in_the_middle()))
    }

    /// Removes a saved snapshot.
    pub fn delete(model: &Model, name: &str) -> Result<()> {
        RawContext::delete(model.inner(), name)
    }

    /// Saves what has been computed under a name; buffered tokens are not part of it.
    pub fn save(&self, name: &str) -> Result<()> {
        self.raw.save(name)
    }

    /// Saves under a name that the engine makes up, and returns it.
    pub fn snapshot(&self) -> Result<String> {
        self.raw.snapshot()
    }

    /// A copy-on-write clone, buffered tokens included.
    pub fn fork(&self) -> Result<Context> {
        Ok(Self::wrap(self.raw.fork()?, &self.model, self.buffer.clone(), self.turns.clone()))
    }

    /// Adds a system message.
    pub fn system(&mut self, text: &str) -> &mut Context {
        self.say(turn(Kind::System, text))
    }

    /// Adds a user message.
    pub fn user(&mut self, text: &str) -> &mut Context {
        self.say(turn(Kind::User, text))
    }

    /// Adds an assistant turn that is already written.
    pub fn assistant(&mut self, text: &str) -> &mut Context {
        self.say(turn(Kind::Assistant, text))
    }

    /// Marks the place where the model's own turn begins.
    pub fn cue(&mut self) -> &mut Context {
        self.say(turn(Kind::Cue, ""))
    }

    /// Tells the model which tools (JSON schemas) it has.
    pub fn equip_tools<S: AsRef<str>>(&mut self, schemas: &[S]) -> Result<&mut Context> {
        let tools = schemas.iter().map(|schema| schema.as_ref().to_string()).collect();
        self.turns.add(&self.model, &mut self.buffer, Turn { tools, ..turn(Kind::Tools, "") })?;
        Ok(self)
    }

    /// Gives a tool's answer back to the model.
    pub fn answer_tool(&mut self, name: &str, value: &str) -> &mut Context {
        self.say(Turn { name: name.to_string(), ..turn(Kind::Answer, value) })
    }

    fn say(&mut self, turn: Turn) -> &mut Context {
        let said = self.turns.add(&self.model, &mut self.buffer, turn);
        said.expect("a turn by itself can always be said, or the engine ends the run");
        self
    }

    /// Closes the model's turn.
    pub fn seal(&mut self) -> &mut Context {
        self.turns.seal();
        self.buffer.extend(chat::seal(&self.model));
        self
    }

    /// Adds raw tokens.
    pub fn append(&mut self, tokens: &[u32]) -> &mut Context {
        self.turns.settle();
        self.buffer.extend_from_slice(tokens);
        self
    }

    /// Computes the buffered tokens and commits the pages they fill. On an error they stay buffered.
    pub async fn flush(&mut self) -> Result<()> {
        self.turns.settle();
        if self.buffer.is_empty() {
            return Ok(());
        }
        let mut plan = Plan::default();
        plan.input(&self.buffer, self.seq_len());
        let mut pass = plan.submit(self)?;
        let tokens = std::mem::take(&mut self.buffer);
        if let Err(error) = pass.output().await {
            pass.undo(self);
            self.buffer = tokens;
            return Err(error);
        }
        pass.settle(self, 0, 0).map(drop)
    }

    /// Forgets the last `n` computed tokens. Only working pages can be rolled back; committed ones cannot.
    pub fn truncate(&mut self, n: u32) -> Result<()> {
        self.turns.settle();
        let working = self.raw.working_page_token_count();
        if n > working {
            return Err(format!(
                "cannot truncate {n} tokens: only the last {working} are in working pages, the rest is committed"
            ));
        }
        self.raw.truncate_working_page_tokens(n);
        Ok(())
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Tokens a KV page holds.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Tokens computed so far, in committed and working pages.
    pub fn seq_len(&self) -> u32 {
        self.raw.committed_page_count() * self.page_size + self.raw.working_page_token_count()
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent {
            committed_pages: self.raw.committed_page_count(),
            working_pages: self.raw.working_page_count(),
            working_tokens: self.raw.working_page_token_count(),
        }
    }

    /// Tokens that wait for the next `flush` or generation.
    pub fn buffer(&self) -> &[u32] {
        &self.buffer
    }

    /// The underlying resource, for page-level operations.
    pub fn inner(&self) -> &RawContext {
        &self.raw
    }

    /// Continues the sequence: configure the generator, then collect or step.
    pub fn generate(&mut self, sampler: Sampler) -> Generator<'_> {
        self.turns.settle();
        Generator::new(self, sampler)
    }

    /// One forward pass of your own making. Buffered tokens take no part in it: `flush` them first.
    pub fn forward(&mut self) -> Forward<'_> {
        self.turns.settle();
        Forward::new(self)
    }

    /// Overrides the bid for the next pass.
    pub fn set_bid(&self, value: f64) {
        self.raw.bid(value);
        self.bid.set(Bid::Override(value));
    }

    /// Bids nothing until the guard is dropped: the pages may go to others meanwhile.
    pub fn idle(&self) -> Idle<'_> {
        self.raw.bid(0.0);
        Idle { ctx: self }
    }

    /// Gives all pages back; the next pass restores them.
    pub fn suspend(&self) -> Result<()> {
        self.raw.suspend()
    }

    pub(crate) fn take_buffer(&mut self) -> Vec<u32> {
        self.turns.settle();
        std::mem::take(&mut self.buffer)
    }

    /// Makes tokens the buffer's first ones.
    pub(crate) fn put_back(&mut self, mut tokens: Vec<u32>) {
        self.turns.settle();
        tokens.append(&mut self.buffer);
        self.buffer = tokens;
    }

    pub(crate) fn shorten_buffer(&mut self, by: usize) {
        self.turns.settle();
        self.buffer.truncate(self.buffer.len().saturating_sub(by));
    }

    /// The generator's bid before a pass. An override holds for one pass; otherwise the bid is renewed when
    /// the number of pages changes, which is when its cost does.
    pub(crate) fn bid_for_step(&self, pages: u32, expected: Expected) {
        match self.bid.get() {
            Bid::Override(_) => self.bid.set(Bid::Stale),
            Bid::Auto { pages: then, .. } if then == pages => {}
            _ => self.auto_bid(pages, expected),
        }
    }

    fn auto_bid(&self, pages: u32, expected: Expected) {
        let balance = scheduling::balance(&self.model);
        let dividend = scheduling::dividend(&self.model);
        let value = default_bid(balance, dividend, pages, self.page_size, expected);
        self.raw.bid(value);
        self.bid.set(Bid::Auto { value, pages });
    }
}

/// Holds a context out of the auction; see [`Context::idle`].
#[must_use = "dropping the guard ends the idleness at once"]
pub struct Idle<'ctx> {
    ctx: &'ctx Context,
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        match self.ctx.bid.get() {
            Bid::Auto { value, .. } | Bid::Override(value) => self.ctx.raw.bid(value),
            Bid::Stale => {
                let pages = self.ctx.raw.committed_page_count() + self.ctx.raw.working_page_count();
                self.ctx.auto_bid(pages, Expected::new(None, None, 0));
            }
        }
    }
}
