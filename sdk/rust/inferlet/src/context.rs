//! A token sequence with its KV cache.

use std::cell::Cell;
use std::fmt;

use crate::executor::block_on;
use crate::forward::Forward;
use crate::generator::Generator;
use crate::model::Model;
use crate::pass::Plan;
use crate::pie::core::context::Context as RawContext;
use crate::pie::plus::turns::{Kind, Turn};
use crate::pie::plus::{bidding, caching, fallible};
use crate::sample::Sampler;
use crate::tools::{described, Call, Tool};
use crate::turns::{turn, Turns};
use crate::{chat, Result};

/// A token sequence with its KV cache, held in pages by the engine, and a buffer of tokens that have not been
/// computed yet. Dropping it gives the pages back.
///
/// Calls that return `&mut Context` report no error themselves: the next call that returns a `Result` does.
pub struct Context {
    raw: RawContext,
    model: Model,
    page_size: u32,
    buffer: Vec<u32>,
    turns: Turns,
    /// Idle guards that are alive.
    idle: Cell<u32>,
    /// The error of a call that returns no result; the next call that can fail returns it.
    fault: Cell<Option<String>>,
}

/// The pages and tokens of a context. The SDK asks for them once per step.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    pub committed_pages: u32,
    pub working_pages: u32,
    pub working_tokens: u32,
}

impl Extent {
    /// The number of working pages that are needed for this many more tokens.
    pub fn pages_with(self, tokens: u32, page_size: u32) -> u32 {
        self.working_pages.max((self.working_tokens + tokens).div_ceil(page_size))
    }
}

impl Context {
    fn wrap(raw: RawContext, model: &Model, buffer: Vec<u32>, turns: Turns) -> Self {
        let page_size = raw.tokens_per_page();
        let (model, idle, fault) = (model.clone(), Cell::new(0), Cell::new(None));
        Self { raw, model, page_size, buffer, turns, idle, fault }
    }

    /// Makes an empty context.
    pub fn new(model: &Model) -> Result<Context> {
        Ok(Self::wrap(RawContext::create(model.inner())?, model, Vec::new(), Turns::default()))
    }

    /// Returns a copy of a saved context. The snapshot stays.
    pub fn open(model: &Model, name: &str) -> Result<Context> {
        let raw = RawContext::open(model.inner(), name)?;
        Ok(Self::wrap(raw, model, Vec::new(), Turns::in_the_middle()))
    }

    /// Returns a saved context, and deletes the snapshot.
    pub fn take(model: &Model, name: &str) -> Result<Context> {
        let raw = RawContext::take(model.inner(), name)?;
        Ok(Self::wrap(raw, model, Vec::new(), Turns::in_the_middle()))
    }

    /// Removes a saved snapshot.
    pub fn delete(model: &Model, name: &str) -> Result<()> {
        RawContext::delete(model.inner(), name)
    }

    /// Saves all tokens, buffered ones too, under a name. A snapshot of that name is replaced.
    pub fn save(&self, name: &str) -> Result<()> {
        self.whole(|raw| raw.save(name))
    }

    /// Saves all tokens under a fresh name, and returns the name.
    pub fn snapshot(&self) -> Result<String> {
        self.whole(RawContext::snapshot)
    }

    /// Calls `save` on a context that holds the buffered tokens too: a copy, if there are any.
    fn whole<T>(&self, save: impl FnOnce(&RawContext) -> Result<T>) -> Result<T> {
        self.check()?;
        if self.buffer.is_empty() {
            return save(&self.raw);
        }
        let mut copy = self.fork()?;
        block_on(copy.flush())?;
        save(&copy.raw)
    }

    /// Returns a copy-on-write clone, with a copy of the buffered tokens.
    pub fn fork(&self) -> Result<Context> {
        self.check()?;
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

    /// Adds an assistant turn that called tools, written as the model's template writes calls. `text` is what the model
    /// said before the calls; it may be empty. Give the answers next, with [`answer_call`](Self::answer_call).
    pub fn assistant_calls(&mut self, text: &str, calls: &[Call]) -> &mut Context {
        let tools = calls.iter().map(Call::json).collect();
        self.say(Turn { tools, ..turn(Kind::Assistant, text) })
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

    /// Tells the model of tools that were made with `#[inferlet::tool]`, or that implement [`Tool`].
    pub fn equip(&mut self, tools: &[&dyn Tool]) -> Result<&mut Context> {
        let schemas: Vec<String> = tools.iter().map(|tool| described(*tool)).collect();
        self.equip_tools(&schemas)
    }

    /// Gives a tool's answer back to the model.
    pub fn answer_tool(&mut self, name: &str, value: &str) -> &mut Context {
        self.say(Turn { name: name.to_string(), ..turn(Kind::Answer, value) })
    }

    /// Gives a tool's answer to one of several calls back to the model: templates that write the ids of calls write the
    /// id of this one.
    pub fn answer_call(&mut self, call: &Call, value: &str) -> &mut Context {
        let tools = if call.id.is_empty() { Vec::new() } else { vec![call.id.clone()] };
        self.say(Turn { name: call.name.clone(), tools, ..turn(Kind::Answer, value) })
    }

    fn say(&mut self, turn: Turn) -> &mut Context {
        let said = self.turns.add(&self.model, &mut self.buffer, turn);
        self.note(said);
        self
    }

    /// Closes the model's turn.
    pub fn seal(&mut self) -> &mut Context {
        self.turns.seal();
        self.buffer.extend(chat::seal(&self.model));
        self
    }

    /// Adds plain text, outside any chat turn.
    pub fn append_text(&mut self, text: &str) -> &mut Context {
        match self.model.tokenizer().try_encode(text) {
            Ok(tokens) => self.append(&tokens),
            failed => {
                self.note(failed.map(drop));
                self
            }
        }
    }

    /// Adds raw tokens.
    pub fn append(&mut self, tokens: &[u32]) -> &mut Context {
        self.turns.settle();
        self.buffer.extend_from_slice(tokens);
        self
    }

    /// Computes the buffered tokens and commits the pages that they fill. On an error the tokens stay buffered.
    pub async fn flush(&mut self) -> Result<()> {
        self.check()?;
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

    /// Drops the last `n` computed tokens. Fails if there are fewer.
    pub fn truncate(&mut self, n: u32) -> Result<()> {
        self.turns.settle();
        fallible::truncate_working_page_tokens(&self.raw, n)
    }

    /// The model that this context is computed with.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How many tokens a KV page holds.
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Tokens computed so far, in committed and working pages.
    pub fn seq_len(&self) -> u32 {
        self.raw.committed_page_count() * self.page_size + self.raw.working_page_token_count()
    }

    /// Returns how many of the tokens that were flushed or given to a generation were found in the engine's prefix
    /// cache, and not computed. A fork begins with 0.
    pub fn cached_tokens(&self) -> u64 {
        caching::cached_tokens(&self.raw)
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

    /// Makes a generator that continues the sequence. Configure it, then collect or step.
    pub fn generate(&mut self, sampler: Sampler) -> Generator<'_> {
        self.turns.settle();
        Generator::new(self, sampler)
    }

    /// Makes one forward pass that you compose. Buffered tokens are not part of it: `flush` them first.
    pub fn forward(&mut self) -> Forward<'_> {
        self.turns.settle();
        Forward::new(self)
    }

    /// Bids `value` credits per page in the next pass. Later passes bid as before. If `value` is negative or not
    /// finite, the next pass fails with an error that says so.
    pub fn set_bid(&self, value: f64) {
        self.note(bidding::once(&self.raw, value));
    }

    /// Bids 0 until the guard is dropped, so that others may get the pages. Then the context bids as before.
    pub fn idle(&self) -> Idle<'_> {
        if self.idle.replace(self.idle.get() + 1) == 0 {
            self.note(bidding::idle(&self.raw, true));
        }
        Idle { ctx: self }
    }

    /// Gives all pages back; the next pass restores them.
    pub fn suspend(&self) -> Result<()> {
        self.raw.suspend()
    }

    /// Gives all pages back for good, as dropping the context does.
    pub fn destroy(self) {
        self.raw.destroy();
    }

    pub(crate) fn take_buffer(&mut self) -> Vec<u32> {
        self.turns.settle();
        std::mem::take(&mut self.buffer)
    }

    /// Inserts tokens at the beginning of the buffer.
    pub(crate) fn put_back(&mut self, mut tokens: Vec<u32>) {
        self.turns.settle();
        tokens.append(&mut self.buffer);
        self.buffer = tokens;
    }

    pub(crate) fn shorten_buffer(&mut self, by: usize) {
        self.turns.settle();
        self.buffer.truncate(self.buffer.len().saturating_sub(by));
    }

    /// Tells the engine how many more passes to expect, from which it computes bids; None if the number is unknown.
    /// `variation` is the squared coefficient of variation of that number: 0 = certain.
    pub(crate) fn expect(&self, passes: Option<f64>, variation: f64) {
        self.note(bidding::expect(&self.raw, passes, variation));
    }

    /// Keeps the error of a call that returns no result.
    fn note(&self, result: Result<()>) {
        if let Err(error) = result {
            self.fault.set(Some(error));
        }
    }

    /// Returns the error that was kept, once.
    pub(crate) fn check(&self) -> Result<()> {
        self.fault.take().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("seq_len", &self.seq_len())
            .field("buffer", &self.buffer)
            .finish_non_exhaustive()
    }
}

/// Keeps a context out of the auction; see [`Context::idle`].
#[must_use = "dropping the guard ends the idleness at once"]
pub struct Idle<'ctx> {
    ctx: &'ctx Context,
}

impl fmt::Debug for Idle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").finish_non_exhaustive()
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        if self.ctx.idle.replace(self.ctx.idle.get() - 1) == 1 {
            self.ctx.note(bidding::idle(&self.ctx.raw, false));
        }
    }
}
