//! Cases about grammars, and about generations that follow them.

use inferlet::prelude::*;
use inferlet::sample::Entropy;
use inferlet::schemars::{self, JsonSchema};
use inferlet::{Constrain, Grammar, GrammarConstraint, Matcher, Regex};
use serde::Deserialize;
use serde_json::{json, Value};

use crate::{allow_only, model, Input};

fn grammar(input: &Input) -> Result<Grammar> {
    match input.kind.as_str() {
        "regex" => Grammar::from_regex(&input.source),
        "ebnf" => Grammar::from_ebnf(&input.source),
        "json_schema" => Grammar::from_json_schema(&input.source),
        _ => Ok(Grammar::json()),
    }
}

pub fn constraint(input: &Input) -> Result<GrammarConstraint> {
    let model = model()?;
    match input.kind.as_str() {
        "regex" => GrammarConstraint::from_regex(&input.source, &model),
        "ebnf" => GrammarConstraint::from_ebnf(&input.source, &model),
        "json_schema" => GrammarConstraint::from_json_schema(&input.source, &model),
        _ => Ok(GrammarConstraint::json(&model)),
    }
}

pub fn asked(input: &Input) -> Result<Context> {
    let mut ctx = Context::new(&model()?)?;
    ctx.user(&input.prompt).cue();
    Ok(ctx)
}

fn sampler(name: &str) -> Sampler {
    match name {
        "top_p" => Sampler::top_p(1.5, 0.9),
        "top_k" => Sampler::top_k(1.5, 20),
        "min_p" => Sampler::min_p(1.5, 0.02),
        "top_k_top_p" => Sampler::top_k_top_p(1.5, 20, 0.9),
        "multinomial" => Sampler::multinomial(1.5, 1),
        "draws" => Sampler::multinomial(1.5, 3),
        _ => Sampler::top_p(1000.0, 1.0),
    }
}

/// Greedy, or drawn from the seed by the sampler, without one all allowed tokens alike; up to a stop token or the limit.
pub fn drawn<'ctx>(ctx: &'ctx mut Context, input: &Input) -> Generator<'ctx> {
    let generator = match input.seed {
        0 => ctx.generate(Sampler::Argmax),
        seed => ctx.generate(sampler(&input.sampler)).seed(seed),
    };
    let generator = generator.max_tokens(input.max_tokens).stop(&input.tokens);
    match input.allowed.is_empty() {
        true => generator,
        false => generator.logit_mask(&allow_only(&input.allowed)),
    }
}

/// Where a generation that chose `tokens` has left its context.
pub fn state_of(ctx: &Context, tokens: &[u32]) -> Value {
    json!([ctx.seq_len(), ctx.buffer(), tokens.len(), true])
}

pub fn matcher(input: &Input) -> Result<Value> {
    let grammar = grammar(input)?;
    let mut matcher = Matcher::new(&grammar, model()?.tokenizer());
    let (first, forced) = (matcher.next_token_logit_mask(), matcher.forced_tokens()?);
    matcher.accept_tokens(&input.tokens)?;
    let (after, terminated) = (matcher.next_token_logit_mask(), matcher.is_terminated());
    let fork = matcher.fork()?;
    matcher.rollback(input.n)?;
    let back = matcher.next_token_logit_mask();
    matcher.reset();
    Ok(json!({
        "source": grammar.to_string(),
        "forced": forced,
        "terminated": terminated,
        "back": back,
        "fork_same": fork.next_token_logit_mask() == after,
        "reset_same": matcher.next_token_logit_mask() == first,
        "refused": refused(matcher.accept_tokens(&[0])),
        "too_far": refused(matcher.rollback(1)),
        "first": first,
        "after": after,
    }))
}

/// Whether it is an error, with a text.
fn refused(result: Result<()>) -> bool {
    result.is_err_and(|error| !error.is_empty())
}

pub fn grammar_bad(input: &Input) -> Result<Value> {
    grammar(input).map(|grammar| json!(grammar.to_string()))
}

/// A constraint of our own that restricts nothing.
struct Anything;

impl Constrain for Anything {
    fn step(&mut self, _accepted: &[u32]) -> &[u32] {
        &[]
    }
}

pub async fn generate_grammar(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let generator = drawn(&mut ctx, input).constrain(constraint(input)?);
    let tokens = generator.collect_tokens().await?;
    let state = state_of(&ctx, &tokens);

    let mut ctx = asked(input)?;
    let mut generator = drawn(&mut ctx, input).constrain(constraint(input)?);
    generator.probe_each_step(0, Entropy);
    let stepped = generator.collect_tokens().await?;
    let same_stepped = stepped == tokens && state_of(&ctx, &stepped) == state;

    let mut ctx = asked(input)?;
    let generator = drawn(&mut ctx, input).constrain(constraint(input)?);
    let beside = generator.constrain(Anything).collect_tokens().await?;
    let same_beside = beside == tokens && state_of(&ctx, &beside) == state;

    let mut ctx = asked(input)?;
    let generator = drawn(&mut ctx, input).constrain(constraint(input)?);
    let twice = generator.constrain(constraint(input)?);
    Ok(json!({
        "text": model()?.tokenizer().decode(&tokens)?,
        "state": state,
        "same_stepped": same_stepped,
        "same_beside": same_beside,
        "same_twice": twice.collect_tokens().await? == tokens,
    }))
}

pub async fn generate_conflict(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let generator = drawn(&mut ctx, input)
        .max_tokens(40)
        .constrain(constraint(input)?);
    let text = match input.n {
        0 => generator.collect_text().await?,
        _ => generator.constrain(Anything).collect_text().await?,
    };
    Ok(json!(text))
}

pub async fn collect_json(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let generator = drawn(&mut ctx, input);
    let value: Value = generator
        .collect_json_with(&input.value.to_string())
        .await?;
    Ok(json!({ "value": value, "done": true }))
}

pub async fn collect_thinking(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let prompt = ctx.buffer().len();
    let generator = drawn(&mut ctx, input).constrain_with(Regex(&input.source))?;
    let schema = input.value.to_string();
    let value: Value = generator.think_first().collect_json_with(&schema).await?;
    let tokens = ctx.seq_len() as usize + ctx.buffer().len() - prompt;
    Ok(json!({ "value": value, "tokens": tokens }))
}

pub async fn native_bad(input: &Input) -> Result<Value> {
    let model = model()?;
    let grammar = tools::try_native_grammar(&model, &input.tools);
    let matcher = tools::try_native_matcher(&model, &input.tools);
    if grammar.as_ref().err() != matcher.as_ref().err() {
        return Err("the grammar and the matcher differ".into());
    }
    Ok(json!({ "grammar": grammar?.is_some(), "matcher": matcher?.is_some() }))
}

pub async fn native_call(input: &Input) -> Result<Value> {
    let model = model()?;
    let Some(matcher) = tools::native_matcher(&model, &input.tools) else {
        return Ok(json!({ "has": false }));
    };
    let grammar = tools::native_grammar(&model, &input.tools);
    let mut ctx = asked(input)?;
    let generator = drawn(&mut ctx, input).constrain(GrammarConstraint::new(matcher));
    let tokens = generator.collect_tokens().await?;
    let tools::Event::Call(name, args) = tools::Decoder::new(&model).feed(&tokens)? else {
        return Err("there is no call".into());
    };
    let args: Value = serde_json::from_str(&args).map_err(|error| error.to_string())?;
    Ok(json!({ "has": grammar.is_some(), "name": name, "args": args }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(dead_code)]
enum Size {
    Small,
    Large,
}

#[derive(Deserialize, JsonSchema)]
#[allow(dead_code)]
struct Pie {
    good: bool,
    price: Option<u8>,
    size: Size,
    slices: Vec<i32>,
}

pub async fn collect_typed(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let pie: Pie = drawn(&mut ctx, input).collect_json().await?;
    Ok(json!({ "typed": matches!(pie.size, Size::Small | Size::Large) }))
}
