//! Generates tokens as bench/sdk.py asks for, and says what one took.

use inferlet::prelude::*;
use serde::Deserialize;
use std::time::Instant;

#[derive(Deserialize)]
struct Input {
    tokens: usize,
    rounds: usize,
    chained: bool,
}

/// Microseconds a token, of each round.
#[inferlet::main]
async fn main(input: Input) -> Result<Vec<f64>> {
    let model = Model::load(&runtime::models()[0])?;
    let mut times = Vec::new();
    for _ in 0..input.rounds {
        let mut ctx = Context::new(&model)?;
        ctx.append(&[97]);
        let start = Instant::now();
        let generator = ctx.generate(Sampler::Argmax).max_tokens(input.tokens);
        let mut generator = generator.ignore_eos();
        if input.chained {
            generator.collect_tokens().await?;
        } else {
            while let Some(step) = generator.next()? {
                step.execute().await?;
            }
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / input.tokens as f64);
    }
    Ok(times)
}
