//! pie:core/inference and what pie:plus adds to it.
use super::handles::{
    Adapter, Chain, Context, ForwardPass, FutureOutput, Grammar, Matcher, Model, Tokenizer,
};
use super::table::{ChainState, Sampler as FlatSampler, SamplerKind};
use super::{own, Answer, HandleKind};
use crate::abi::{guarded, Out, Str, Words};
use crate::host::pie::core::inference::{self, Output, Sampler, SlotOutput};
use crate::host::pie::plus::{
    self,
    chains::{Ending, Progress},
    steps::Given,
};
use crate::wasm::Guest;
use wasmtime::component::Resource;
use wasmtime::Result;
use wasmtime_wasi::p2::DynPollable;

fn flat(sampler: &Sampler) -> FlatSampler {
    let make = |kind, temperature, count, p, tokens: &[u32]| FlatSampler {
        kind,
        temperature,
        count,
        p,
        tokens: Words::of(tokens),
    };
    match sampler {
        Sampler::Multinomial((t, draws)) => make(SamplerKind::Multinomial, *t, *draws, 1.0, &[]),
        Sampler::TopK((t, k)) => make(SamplerKind::TopK, *t, *k, 1.0, &[]),
        Sampler::TopP((t, p)) => make(SamplerKind::TopP, *t, 0, *p, &[]),
        Sampler::MinP((t, p)) => make(SamplerKind::MinP, *t, 0, *p, &[]),
        Sampler::TopKTopP((t, k, p)) => make(SamplerKind::TopKTopP, *t, *k, *p, &[]),
        Sampler::Embedding => make(SamplerKind::Embedding, 0.0, 0, 1.0, &[]),
        Sampler::Dist((t, k)) => make(SamplerKind::Distribution, *t, *k, 1.0, &[]),
        Sampler::RawLogits => make(SamplerKind::Logits, 0.0, 0, 1.0, &[]),
        Sampler::Logprob(token) => make(
            SamplerKind::Logprobs,
            0.0,
            0,
            1.0,
            std::slice::from_ref(token),
        ),
        Sampler::Logprobs(tokens) => make(SamplerKind::Logprobs, 0.0, 0, 1.0, tokens),
        Sampler::Entropy => make(SamplerKind::Entropy, 0.0, 0, 1.0, &[]),
    }
}

fn output(out: Out) -> Output {
    let (tokens, positions) = out.words.split_at(out.words.len() / 2);
    Output {
        slots: out.slots,
        spec_tokens: tokens.to_vec(),
        spec_positions: positions.to_vec(),
    }
}

impl inference::Host for Guest {}

impl inference::HostForwardPass for Guest {
    fn new(&mut self, model: Resource<Model>) -> Result<Resource<ForwardPass>> {
        let mut pass = 0;
        self.must(|t, g, out| (t.pass_new)(g, model.rep(), &mut pass, out))?;
        Ok(own(pass))
    }
    fn context(&mut self, pass: Resource<ForwardPass>, context: Resource<Context>) -> Result<()> {
        self.value(|t, g, (), out| (t.pass_context)(g, pass.rep(), context.rep(), out))
    }
    fn input_tokens(
        &mut self,
        pass: Resource<ForwardPass>,
        tokens: Vec<u32>,
        positions: Vec<u32>,
    ) -> Result<()> {
        let (tokens, positions) = (Words::of(&tokens), Words::of(&positions));
        self.value(|t, g, (), out| (t.pass_input_tokens)(g, pass.rep(), tokens, positions, out))
    }
    fn input_speculative_tokens(
        &mut self,
        pass: Resource<ForwardPass>,
        tokens: Vec<u32>,
        positions: Vec<u32>,
    ) -> Result<()> {
        let (tokens, positions) = (Words::of(&tokens), Words::of(&positions));
        self.value(|t, g, (), out| {
            (t.pass_input_speculative_tokens)(g, pass.rep(), tokens, positions, out)
        })
    }
    fn output_speculative_tokens(
        &mut self,
        pass: Resource<ForwardPass>,
        enable: bool,
    ) -> Result<()> {
        self.value(|t, g, (), out| (t.pass_output_speculative_tokens)(g, pass.rep(), enable, out))
    }
    fn attention_mask(&mut self, pass: Resource<ForwardPass>, rows: Vec<Vec<u32>>) -> Result<()> {
        let rows: Vec<Words> = rows.iter().map(|row| Words::of(row)).collect();
        self.value(|t, g, (), out| {
            (t.pass_attention_mask)(g, pass.rep(), rows.as_ptr(), rows.len(), out)
        })
    }
    fn logit_mask(&mut self, pass: Resource<ForwardPass>, mask: Vec<u32>) -> Result<()> {
        self.value(|t, g, (), out| (t.pass_logit_mask)(g, pass.rep(), Words::of(&mask), out))
    }
    fn sampler(
        &mut self,
        pass: Resource<ForwardPass>,
        rows: Vec<u32>,
        sampler: Sampler,
    ) -> Result<()> {
        let (rows, sampler) = (Words::of(&rows), flat(&sampler));
        self.value(|t, g, (), out| (t.pass_sampler)(g, pass.rep(), rows, &sampler, out))
    }
    fn adapter(&mut self, pass: Resource<ForwardPass>, adapter: Resource<Adapter>) -> Result<()> {
        self.value(|t, g, (), out| (t.pass_adapter)(g, pass.rep(), adapter.rep(), out))
    }
    fn execute(&mut self, pass: Resource<ForwardPass>) -> Answer<Resource<FutureOutput>> {
        let mut future = 0;
        let queued = self.call(|t, g, out| (t.pass_execute)(g, pass.rep(), &mut future, out));
        Ok(queued.map(|_| own(future)))
    }
    fn drop(&mut self, pass: Resource<ForwardPass>) -> Result<()> {
        self.drop_handle(HandleKind::ForwardPass, pass.rep())
    }
}

impl inference::HostFutureOutput for Guest {
    fn pollable(&mut self, future: Resource<FutureOutput>) -> Result<Resource<DynPollable>> {
        self.subscribe(HandleKind::FutureOutput, future.rep())
    }
    fn get(&mut self, future: Resource<FutureOutput>) -> Result<Option<Output>> {
        let mut ready = false;
        let out = self.must(|t, g, out| (t.output_get)(g, future.rep(), &mut ready, out))?;
        if !ready {
            return Ok(None);
        }
        Ok(Some(output(out)))
    }
    fn drop(&mut self, future: Resource<FutureOutput>) -> Result<()> {
        self.drop_handle(HandleKind::FutureOutput, future.rep())
    }
}

impl inference::HostGrammar for Guest {
    fn from_json_schema(&mut self, schema: String) -> Answer<Resource<Grammar>> {
        let (mut grammar, schema) = (0, Str::of(&schema));
        let made =
            self.call(|t, g, out| (t.grammar_from_json_schema)(g, schema, &mut grammar, out));
        Ok(made.map(|_| own(grammar)))
    }
    fn json(&mut self) -> Result<Resource<Grammar>> {
        let mut grammar = 0;
        self.must(|t, g, out| (t.grammar_json)(g, &mut grammar, out))?;
        Ok(own(grammar))
    }
    fn from_regex(&mut self, pattern: String) -> Answer<Resource<Grammar>> {
        let (mut grammar, pattern) = (0, Str::of(&pattern));
        let made = self.call(|t, g, out| (t.grammar_from_regex)(g, pattern, &mut grammar, out));
        Ok(made.map(|_| own(grammar)))
    }
    fn from_ebnf(&mut self, source: String) -> Answer<Resource<Grammar>> {
        let (mut grammar, source) = (0, Str::of(&source));
        let made = self.call(|t, g, out| (t.grammar_from_ebnf)(g, source, &mut grammar, out));
        Ok(made.map(|_| own(grammar)))
    }
    fn to_string(&mut self, grammar: Resource<Grammar>) -> Result<String> {
        Ok(self
            .must(|t, g, out| (t.grammar_to_string)(g, grammar.rep(), out))?
            .into_text())
    }
    fn drop(&mut self, grammar: Resource<Grammar>) -> Result<()> {
        self.drop_handle(HandleKind::Grammar, grammar.rep())
    }
}

impl inference::HostMatcher for Guest {
    fn new(
        &mut self,
        grammar: Resource<Grammar>,
        tokenizer: Resource<Tokenizer>,
    ) -> Result<Resource<Matcher>> {
        let mut matcher = 0;
        self.must(|t, g, out| {
            (t.matcher_new)(g, grammar.rep(), tokenizer.rep(), &mut matcher, out)
        })?;
        Ok(own(matcher))
    }
    fn accept_tokens(&mut self, matcher: Resource<Matcher>, tokens: Vec<u32>) -> Answer<()> {
        let tokens = Words::of(&tokens);
        let fed = self.call(|t, g, out| (t.matcher_accept_tokens)(g, matcher.rep(), tokens, out));
        Ok(fed.map(|_| ()))
    }
    fn next_token_logit_mask(&mut self, matcher: Resource<Matcher>) -> Result<Vec<u32>> {
        Ok(self
            .must(|t, g, out| (t.matcher_next_token_logit_mask)(g, matcher.rep(), out))?
            .words)
    }
    fn is_terminated(&mut self, matcher: Resource<Matcher>) -> Result<bool> {
        self.value(|t, g, value, out| (t.matcher_is_terminated)(g, matcher.rep(), value, out))
    }
    fn reset(&mut self, matcher: Resource<Matcher>) -> Result<()> {
        self.value(|t, g, (), out| (t.matcher_reset)(g, matcher.rep(), out))
    }
    fn drop(&mut self, matcher: Resource<Matcher>) -> Result<()> {
        self.drop_handle(HandleKind::Matcher, matcher.rep())
    }
}

impl plus::sampling::Host for Guest {
    fn seed(&mut self, pass: Resource<ForwardPass>, seed: u64) -> Result<()> {
        self.value(|t, g, (), out| (t.pass_seed)(g, pass.rep(), seed, out))
    }
}

impl plus::outcome::Host for Guest {
    fn failure(&mut self, future: Resource<FutureOutput>) -> Result<Option<String>> {
        let mut failed = false;
        let out = self.must(|t, g, out| (t.output_failure)(g, future.rep(), &mut failed, out))?;
        Ok(failed.then(|| out.into_text()))
    }
}

impl plus::chains::Host for Guest {
    fn run(
        &mut self,
        pass: Resource<ForwardPass>,
        max_tokens: u32,
        stops: Vec<u32>,
    ) -> Answer<Resource<Chain>> {
        let (mut chain, stops) = (0, Words::of(&stops));
        let queued =
            self.call(|t, g, out| (t.chain_run)(g, pass.rep(), max_tokens, stops, &mut chain, out));
        Ok(queued.map(|_| own(chain)))
    }
}

impl plus::chains::HostChain for Guest {
    fn pollable(&mut self, chain: Resource<Chain>) -> Result<Resource<DynPollable>> {
        self.subscribe(HandleKind::Chain, chain.rep())
    }
    fn take(&mut self, chain: Resource<Chain>) -> Answer<Progress> {
        let mut state = ChainState::default();
        let taken = self.call(|t, g, out| (t.chain_take)(g, chain.rep(), &mut state, out));
        let ended = match state {
            ChainState::Runs => None,
            ChainState::Stopped => Some(Ending::Stop),
            ChainState::AtLimit => Some(Ending::Limit),
            ChainState::Cancelled => Some(Ending::Cancelled),
        };
        Ok(taken.map(|out| Progress {
            tokens: out.words,
            ended,
        }))
    }
    fn drop(&mut self, chain: Resource<Chain>) -> Result<()> {
        self.drop_handle(HandleKind::Chain, chain.rep())
    }
}

impl plus::steps::Host for Guest {
    fn begin(
        &mut self,
        context: Resource<Context>,
        tokens: Vec<u32>,
        logit_mask: Vec<u32>,
        seed: Option<u64>,
        sampler: Sampler,
    ) -> Answer<Resource<FutureOutput>> {
        let (tokens, mask, sampler) = (Words::of(&tokens), Words::of(&logit_mask), flat(&sampler));
        let seed = seed
            .as_ref()
            .map_or(std::ptr::null(), |seed| seed as *const u64);
        let queued = self.answer(|t, g, future, out| {
            (t.step_begin)(g, context.rep(), tokens, mask, seed, &sampler, future, out)
        });
        Ok(queued.map(own))
    }
    async fn finish(&mut self, future: Resource<FutureOutput>) -> Answer<Given> {
        loop {
            let waiter = {
                let mut signal = std::ptr::null();
                let (mut is_token, mut token) = (false, 0);
                let taken = self.answer(|t, g, (), out| {
                    (t.step_finish)(g, future.rep(), &mut signal, &mut is_token, &mut token, out)
                });
                match (taken, unsafe { crate::wasm::waiter(signal) }) {
                    (Err(failure), _) => return Ok(Err(failure)),
                    (Ok(()), None) if is_token => return Ok(Ok(Given::Token(token))),
                    (Ok(()), None) => return Ok(Ok(Given::Output(output(self.take_out())))),
                    (Ok(()), Some(waiter)) => waiter,
                }
            };
            waiter.fired().await;
        }
    }
}

fn bytes_of(floats: &[f32]) -> &[u8] {
    // Any f32 is four valid bytes; wasm and this host are both little-endian.
    unsafe { std::slice::from_raw_parts(floats.as_ptr().cast(), std::mem::size_of_val(floats)) }
}

unsafe fn list<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(ptr, len)
    }
}

/// Append a slot: a token.
#[no_mangle]
pub unsafe extern "C" fn pie_slot_token(out: *mut Out, token: u32) {
    guarded((), || (*out).slots.push(SlotOutput::Token(token)))
}

/// Append a slot: a distribution of `len` tokens.
#[no_mangle]
pub unsafe extern "C" fn pie_slot_distribution(
    out: *mut Out,
    ids: *const u32,
    probs: *const f32,
    len: usize,
) {
    guarded((), || {
        let (ids, probs) = (list(ids, len).to_vec(), list(probs, len).to_vec());
        (*out).slots.push(SlotOutput::Distribution((ids, probs)))
    })
}

/// Append a slot: logits.
#[no_mangle]
pub unsafe extern "C" fn pie_slot_logits(out: *mut Out, logits: *const f32, len: usize) {
    guarded((), || {
        (*out)
            .slots
            .push(SlotOutput::Logits(bytes_of(list(logits, len)).to_vec()))
    })
}

/// Append a slot: log probabilities.
#[no_mangle]
pub unsafe extern "C" fn pie_slot_logprobs(out: *mut Out, logprobs: *const f32, len: usize) {
    guarded((), || {
        (*out)
            .slots
            .push(SlotOutput::Logprobs(list(logprobs, len).to_vec()))
    })
}

/// Append a slot: an entropy.
#[no_mangle]
pub unsafe extern "C" fn pie_slot_entropy(out: *mut Out, entropy: f32) {
    guarded((), || (*out).slots.push(SlotOutput::Entropy(entropy)))
}
