//! Measures host calls from inside a guest, and runs the stepped generation loop.

use inferlet::pie::core::inference::{ForwardPass, Sampler as RawSampler};
use inferlet::prelude::*;
use inferlet::time::sleep;
use serde::Deserialize;
use std::time::{Duration, Instant};

#[derive(Deserialize)]
struct Input {
    mode: String,
    /// Calls, or tokens.
    n: u32,
    #[serde(default)]
    model: usize,
    /// Of those that generate together: which one, how many, and how long their prompts are.
    #[serde(default)]
    index: u32,
    #[serde(default)]
    peers: u32,
    #[serde(default)]
    prompt: u32,
}

/// Nanoseconds a call (or 0 for modes that are timed from outside).
#[inferlet::main]
async fn main(input: Input) -> Result<f64> {
    let model = Model::load(&runtime::models()[input.model])?;
    let mut ctx = Context::new(&model)?;
    match input.mode.as_str() {
        "call_u32" => {
            let start = Instant::now();
            let mut sum = 0;
            for _ in 0..input.n {
                sum += ctx.inner().committed_page_count();
            }
            Ok(each(start, input.n) + f64::from(sum))
        }
        "call_list" => {
            let pass = ForwardPass::new(model.inner());
            let list: Vec<u32> = (0..1000).collect();
            let start = Instant::now();
            for _ in 0..input.n {
                pass.logit_mask(&list);
            }
            Ok(each(start, input.n))
        }
        "call_logits" => logits(&model, &mut ctx, input.n).await,
        "generate" => {
            ctx.append(&[97]);
            let g = ctx.generate(Sampler::Argmax).max_tokens(input.n as usize);
            let mut g = g.ignore_eos();
            while let Some(step) = g.next()? {
                step.execute().await?;
            }
            Ok(0.0)
        }
        "chained" | "stepped" => together(&mut ctx, &input).await,
        "first" => first(&mut ctx, &input).await,
        "agent_kept" | "agent_resent" => agent(&model, &input).await,
        mode => Err(format!("no mode is called {mode}")),
    }
}

/// Nanoseconds a token, from the moment when all peers have their prompts.
async fn together(ctx: &mut Context, input: &Input) -> Result<f64> {
    let prompt = |place: u32| 1000 + (input.index * 977 + place * 131) % 20_000;
    ctx.append(&(0..input.prompt - 1).map(prompt).collect::<Vec<_>>());
    ctx.flush().await?;
    ctx.append(&[prompt(input.prompt - 1)]);
    meet(input).await;

    let start = Instant::now();
    let generator = ctx.generate(Sampler::Argmax).max_tokens(input.n as usize);
    let mut generator = generator.ignore_eos();
    let tokens = if input.mode == "chained" {
        generator.collect_tokens().await?.len()
    } else {
        while let Some(step) = generator.next()? {
            step.execute().await?;
        }
        generator.tokens_generated()
    };
    if tokens != input.n as usize {
        return Err(format!("{tokens} tokens instead of {}", input.n));
    }
    Ok(each(start, input.n))
}

/// The first token after a prompt. Returns it.
async fn first(ctx: &mut Context, input: &Input) -> Result<f64> {
    let prompt = |place: u32| 1000 + (input.index * 977 + place * 131) % 20_000;
    ctx.append(&(0..input.prompt).map(prompt).collect::<Vec<_>>());
    let generator = ctx.generate(Sampler::Argmax).max_tokens(1);
    let tokens = generator.ignore_eos().collect_tokens().await?;
    Ok(f64::from(tokens[0]))
}

/// An agent that thinks, waits for a tool and reads its answer, `n` times, and then concludes. It either keeps its
/// context, or sends all of it again in every turn. Returns a checksum of its tokens.
async fn agent(model: &Model, input: &Input) -> Result<f64> {
    const THOUGHT: usize = 12;
    const ANSWER: u32 = 24;
    let kept = input.mode == "agent_kept";
    let mut words = (0..).map(|place: u32| 1000 + (input.index * 977 + place * 131) % 20_000);
    let mut history: Vec<u32> = words.by_ref().take(input.prompt as usize).collect();
    let mut ctx = Context::new(model)?;
    ctx.append(&history);
    let mut checksum = 0;
    for turn in 0..=input.n {
        if !kept {
            ctx = Context::new(model)?;
            ctx.append(&history);
        }
        let thought = ctx.generate(Sampler::Argmax).max_tokens(THOUGHT);
        let thought = thought.ignore_eos().collect_tokens().await?;
        checksum = thought
            .iter()
            .fold(checksum, |sum, t| (sum * 31 + t) % 1_000_003);
        if turn < input.n {
            sleep(Duration::from_millis(50)).await;
            let answer: Vec<u32> = words.by_ref().take(ANSWER as usize).collect();
            ctx.append(&answer);
            history.extend(thought.iter().chain(&answer));
        }
    }
    Ok(f64::from(checksum))
}

/// Waits until all peers are here.
async fn meet(input: &Input) {
    if input.index > 0 {
        let go = messaging::subscribe("go");
        messaging::push("here", "");
        go.get_async().await;
        return;
    }
    for _ in 1..input.peers {
        messaging::pull("here").wait_async().await;
    }
    messaging::broadcast("go", "");
}

fn each(start: Instant, n: u32) -> f64 {
    start.elapsed().as_nanos() as f64 / f64::from(n)
}

/// The time of `get` alone, once the logits wait at the host.
async fn logits(model: &Model, ctx: &mut Context, n: u32) -> Result<f64> {
    let mut total = 0;
    ctx.inner().reserve_working_pages(1 + n / ctx.page_size())?;
    for position in 0..n {
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        pass.input_tokens(&[97], &[position]);
        pass.sampler(&[0], &RawSampler::RawLogits);
        let future = pass.execute()?;
        future.pollable().block();
        let start = Instant::now();
        let output = future.get();
        total += start.elapsed().as_nanos();
        if output.is_none_or(|o| o.slots.len() != 1) {
            return Err("the pass gave no logits".into());
        }
    }
    Ok(total as f64 / f64::from(n))
}
