//! Cases about generation.

use std::sync::{Arc, Mutex};

use inferlet::prelude::*;
use inferlet::sample::{Entropy, Logits};
use inferlet::Constrain;
use serde_json::{json, Value};

use crate::{allow_only, argmax, model, Input};

/// A fresh context that asks the prompt and waits for the model's turn.
fn asked(input: &Input) -> Result<Context> {
    let mut ctx = Context::new(&model()?)?;
    ctx.user(&input.prompt).cue();
    Ok(ctx)
}

/// Greedy, up to the end of the turn or the limit.
fn greedy<'ctx>(ctx: &'ctx mut Context, input: &Input) -> Generator<'ctx> {
    ctx.generate(Sampler::Argmax).max_tokens(input.max_tokens)
}

pub async fn tokens(input: &Input) -> Result<Value> {
    Ok(json!(
        greedy(&mut asked(input)?, input).collect_tokens().await?
    ))
}

pub async fn flushed(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    ctx.flush().await?;
    let length = ctx.seq_len();
    let tokens = greedy(&mut ctx, input).collect_tokens().await?;
    let mut ctx = asked(input)?;
    ctx.flush().await?;
    let mut generator = greedy(&mut ctx, input);
    let entropy = generator.probe_each_step(0, Entropy);
    let (mut stepped, mut probed) = (Vec::new(), true);
    while let Some(step) = generator.next()? {
        let out = step.execute().await?;
        probed &= out.entropy(entropy).is_some();
        stepped.extend_from_slice(&out.tokens);
    }
    drop(generator);
    let grown = ctx.seq_len() as usize + ctx.buffer().len() - length as usize;
    Ok(json!({
        "tokens": tokens,
        "same_stepped": stepped == tokens,
        "probed": probed,
        "grown": grown == tokens.len(),
    }))
}

pub async fn text(input: &Input) -> Result<Value> {
    Ok(json!(
        greedy(&mut asked(input)?, input).collect_text().await?
    ))
}

pub async fn steps(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let mut generator = greedy(&mut ctx, input);
    let mut tokens = Vec::new();
    while let Some(step) = generator.next()? {
        tokens.extend(step.execute().await?.tokens);
    }
    Ok(json!({
        "tokens": tokens,
        "generated": generator.tokens_generated(),
        "done": generator.is_done(),
    }))
}

pub async fn manual(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    // The first step has a row for every buffered token, each later one just one.
    let mut generator = greedy(&mut ctx, input);
    let mut tokens = Vec::new();
    while let Some(mut step) = generator.next()? {
        step.clear_sampler();
        let logits = step.probe(0, Logits);
        let out = step.execute().await?;
        tokens.extend(generator.accept(&[argmax(out.logits(logits).ok_or("no logits")?)]));
    }
    Ok(json!(tokens))
}

pub async fn overridden(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let mut generator = greedy(&mut ctx, input);
    let mut tokens = Vec::new();
    while let Some(step) = generator.next()? {
        step.execute().await?;
        tokens.extend(generator.accept(&[input.token]));
    }
    Ok(json!({
        "tokens": tokens,
        "generated": generator.tokens_generated(),
        "done": generator.is_done(),
    }))
}

struct OnlyThese {
    mask: Vec<u32>,
    calls: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Constrain for OnlyThese {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        self.calls.lock().unwrap().push(accepted.to_vec());
        &self.mask
    }
}

pub async fn constrained(input: &Input) -> Result<Value> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let constraint = OnlyThese {
        mask: allow_only(&input.allowed),
        calls: calls.clone(),
    };
    let mut ctx = asked(input)?;
    let generator = greedy(&mut ctx, input);
    let tokens = generator.constrain(constraint).collect_tokens().await?;
    let calls = calls.lock().unwrap();
    Ok(json!({ "tokens": tokens, "calls": calls[..calls.len().min(3)] }))
}

/// Greedy among the allowed tokens.
fn masked_greedy<'ctx>(ctx: &'ctx mut Context, input: &Input) -> Generator<'ctx> {
    greedy(ctx, input).logit_mask(&allow_only(&input.allowed))
}

pub async fn masked(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    Ok(json!(
        masked_greedy(&mut ctx, input).collect_tokens().await?
    ))
}

pub async fn stops(input: &Input) -> Result<Value> {
    let (mut first, mut second) = (asked(input)?, asked(input)?);
    let (mut third, mut fourth) = (asked(input)?, asked(input)?);
    let own = masked_greedy(&mut first, input);
    let added = masked_greedy(&mut second, input).stop(&input.tokens);
    let replaced = masked_greedy(&mut third, input).ignore_eos();
    let replaced = replaced.stop(&input.tokens);
    let none = masked_greedy(&mut fourth, input).ignore_eos();
    Ok(json!({
        "own": own.collect_tokens().await?,
        "added": added.collect_tokens().await?,
        "replaced": replaced.collect_tokens().await?,
        "none": none.collect_tokens().await?,
    }))
}

/// Every allowed token is about as likely as any other.
fn random<'ctx>(ctx: &'ctx mut Context, input: &Input) -> Generator<'ctx> {
    let generator = ctx.generate(Sampler::top_p(1000.0, 1.0));
    generator.max_tokens(input.max_tokens).seed(input.seed)
}

pub async fn special(input: &Input) -> Result<Value> {
    let (mut first, mut second, mut third) = (asked(input)?, asked(input)?, asked(input)?);
    let mask = allow_only(&input.allowed);
    let tokens = random(&mut first, input)
        .logit_mask(&mask)
        .collect_tokens()
        .await?;
    let text = random(&mut second, input)
        .logit_mask(&mask)
        .collect_text()
        .await?;
    let constraint = OnlyThese {
        mask,
        calls: Arc::default(),
    };
    let stepped = random(&mut third, input).constrain(constraint);
    Ok(json!({ "tokens": tokens, "text": text, "stepped": stepped.collect_text().await? }))
}

pub async fn probed(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let mut generator = greedy(&mut ctx, input);
    let entropy = generator.probe_each_step(0, Entropy);
    let mut entropies = Vec::new();
    while let Some(step) = generator.next()? {
        entropies.push(step.execute().await?.entropy(entropy));
    }
    Ok(json!(entropies))
}

pub async fn seeded(input: &Input) -> Result<Value> {
    let first = sampled(input, input.seed).await?;
    let again = sampled(input, input.seed).await?;
    let other = sampled(input, input.seed + 1).await?;
    Ok(json!({ "same": first == again, "differs": first != other }))
}

async fn sampled(input: &Input, seed: u64) -> Result<Vec<u32>> {
    let mut ctx = asked(input)?;
    let generator = ctx
        .generate(Sampler::top_p(1.0, 0.95))
        .max_tokens(input.max_tokens);
    generator.seed(seed).collect_tokens().await
}
