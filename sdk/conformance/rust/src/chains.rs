//! Cases about the two forms of a generation: run by the engine, and step by step.

use std::time::Duration;

use inferlet::prelude::*;
use inferlet::time::timeout;
use serde_json::{json, Value};

use crate::{model, Input};

fn asked(input: &Input) -> Result<Context> {
    let mut ctx = Context::new(&model()?)?;
    ctx.user(&input.prompt).cue();
    Ok(ctx)
}

/// Up to a stop token or the limit; greedy, or drawn from the seed.
fn generator<'ctx>(ctx: &'ctx mut Context, input: &Input, max_tokens: usize) -> Generator<'ctx> {
    let generator = match input.seed {
        0 => ctx.generate(Sampler::Argmax),
        seed => ctx.generate(Sampler::top_p(1.0, 0.95)).seed(seed),
    };
    generator.max_tokens(max_tokens).stop(&input.tokens)
}

/// At most `n` steps.
async fn steps(generator: &mut Generator<'_>, n: usize) -> Result<Vec<u32>> {
    let mut tokens = Vec::new();
    for _ in 0..n {
        let Some(step) = generator.next()? else { break };
        tokens.extend(step.execute().await?.tokens);
    }
    Ok(tokens)
}

/// Where a context stands, and what it says next.
async fn state(ctx: &mut Context) -> Result<Value> {
    let (length, buffer) = (ctx.seq_len(), ctx.buffer().to_vec());
    ctx.append(&[97]);
    let next = ctx.generate(Sampler::Argmax).max_tokens(3);
    Ok(json!([length, buffer, next.collect_tokens().await?]))
}

pub async fn chained(input: &Input) -> Result<Value> {
    let mut stepped = asked(input)?;
    let mut by_steps = generator(&mut stepped, input, input.max_tokens);
    let tokens = steps(&mut by_steps, usize::MAX).await?;
    let mut decoder = chat::Decoder::new(&model()?);
    let mut text = String::new();
    for token in &tokens {
        if let chat::Event::Delta(delta) = decoder.feed(&[*token])? {
            text += &delta;
        }
    }
    let stepped = state(&mut stepped).await?;

    let mut ctx = asked(input)?;
    let run = generator(&mut ctx, input, input.max_tokens);
    let same_tokens = run.collect_tokens().await? == tokens;
    let same_state = state(&mut ctx).await? == stepped;
    let mut ctx = asked(input)?;
    let run = generator(&mut ctx, input, input.max_tokens);
    let same_text = run.collect_text().await? == text;
    Ok(json!({
        "tokens": tokens,
        "state": stepped,
        "same_tokens": same_tokens,
        "same_text": same_text,
        "same_state": same_state && state(&mut ctx).await? == stepped,
    }))
}

/// A loop that is left, and a collector that goes on from there.
pub async fn left(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let mut tokens = steps(
        &mut generator(&mut ctx, input, input.max_tokens),
        input.n as usize,
    )
    .await?;
    let length = ctx.seq_len();
    let rest = generator(&mut ctx, input, input.max_tokens - tokens.len());
    tokens.extend(rest.collect_tokens().await?);
    let mut other = asked(input)?;
    let whole = generator(&mut other, input, input.max_tokens)
        .collect_tokens()
        .await?;
    let mut left = other.generate(Sampler::Argmax).ignore_eos();
    drop(left.next()?);
    let skipped = left
        .next()
        .is_err_and(|error| error.contains("was not executed"));
    Ok(json!({ "length": length, "same": tokens == whole, "skipped": skipped }))
}

/// Greedy, and without stop tokens.
fn past_the_end(ctx: &mut Context, max_tokens: usize) -> Generator<'_> {
    let generator = ctx.generate(Sampler::Argmax).max_tokens(max_tokens);
    generator.ignore_eos()
}

/// A collector that is given up in the middle, and another that goes on from there.
pub async fn cancelled(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let greedy = past_the_end(&mut ctx, input.max_tokens);
    let whole = greedy.collect_tokens().await?;

    let mut ctx = asked(input)?;
    let prompt = ctx.buffer().len();
    let greedy = past_the_end(&mut ctx, input.max_tokens);
    let time = Duration::from_millis(input.ms);
    let _ = timeout(time, greedy.collect_tokens()).await;
    let had = ctx.seq_len() as usize + ctx.buffer().len() - prompt;
    let greedy = past_the_end(&mut ctx, input.max_tokens - had);
    Ok(json!({ "same": greedy.collect_tokens().await? == whole[had..] }))
}
