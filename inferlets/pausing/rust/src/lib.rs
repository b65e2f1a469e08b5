//! Waits for a tool twice, and lets others have its pages meanwhile. Its tokens are the same as without the waits.

use inferlet::prelude::*;
use inferlet::{scheduling, time::sleep};
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
struct Input {
    prompt: String,
}

async fn say(ctx: &mut Context, tokens: usize) -> Result<Vec<u32>> {
    let generator = ctx.generate(Sampler::Argmax).max_tokens(tokens);
    generator.ignore_eos().collect_tokens().await
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    let endowed = scheduling::balance(&model);
    let mut ctx = Context::new(&model)?;
    ctx.user(&input.prompt).cue();
    let mut plain = ctx.fork()?;

    ctx.set_bid(2.5); // for the next pass; the engine bids for later ones
    let mut tokens = say(&mut ctx, 8).await?;
    {
        let _guard = ctx.idle(); // bid 0 until the guard is dropped
        sleep(Duration::from_millis(20)).await; // a tool
    }
    tokens.extend(say(&mut ctx, 8).await?);
    ctx.suspend()?; // give the pages back now; the next pass restores them
    sleep(Duration::from_millis(20)).await; // another tool
    tokens.extend(say(&mut ctx, 8).await?);

    let same = tokens == say(&mut plain, 24).await?;
    let spent = endowed - scheduling::balance(&model);
    let (price, rent) = (scheduling::price(), scheduling::rent(&ctx));
    Ok(format!(
        "same tokens: {same}\nspent: {spent} of {endowed}, a page costs {price}, rent is {rent}"
    ))
}
