//! Hides a mark in the choice of words, and finds it again. The token before decides, by a secret key, which half of the
//! vocabulary is green. Green tokens are made likelier, so a marked text has more of them than chance would give.

use std::hash::{DefaultHasher, Hash, Hasher};

use inferlet::prelude::*;
use inferlet::sample::Distribution;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: Option<String>,
    /// A text to look for the mark in, in place of a prompt.
    check: Option<String>,
    key: Option<String>,
    strength: Option<f32>,
    seed: Option<u64>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Report {
    text: String,
    green: usize,
    tokens: usize,
    /// By how many standard deviations there are more green tokens than chance gives.
    z: f64,
    marked: bool,
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn is_green(key: &str, before: u32, token: u32) -> bool {
    hash((key, before, token)) % 2 == 0
}

fn report(key: &str, text: String, tokens: &[u32]) -> Report {
    let green = tokens
        .windows(2)
        .filter(|pair| is_green(key, pair[0], pair[1]))
        .count();
    let count = tokens.len().saturating_sub(1);
    let z = (green as f64 - count as f64 / 2.0) / (count as f64 / 4.0).sqrt().max(0.5);
    Report {
        text,
        green,
        tokens: count,
        z,
        marked: z > 3.0,
    }
}

/// Draws from a distribution in which green tokens count `boost` times as much. `dice` is in [0, 1).
fn draw(
    ids: &[u32],
    probabilities: &[f32],
    green: impl Fn(u32) -> bool,
    boost: f32,
    dice: f32,
) -> u32 {
    let weigh = |(id, p): (&u32, &f32)| if green(*id) { p * boost } else { *p };
    let weights: Vec<f32> = ids.iter().zip(probabilities).map(weigh).collect();
    let mut left = dice * weights.iter().sum::<f32>();
    for (id, weight) in ids.iter().zip(&weights) {
        left -= weight;
        if left < 0.0 {
            return *id;
        }
    }
    ids[0]
}

#[inferlet::main]
async fn main(input: Input) -> Result<Report> {
    let key = input.key.unwrap_or("pie".into());
    let model = Model::load(&runtime::models()[0])?;
    if let Some(text) = input.check {
        let tokens = model.tokenizer().encode(&text);
        return Ok(report(&key, text, &tokens));
    }
    let boost = input.strength.unwrap_or(2.0).exp();
    let mut ctx = Context::new(&model)?;
    ctx.user(&input.prompt.ok_or("give a prompt, or a text to check")?)
        .cue();
    let mut before = *ctx.buffer().last().ok_or("the cue has no tokens")?;
    let mut generator = ctx
        .generate(Sampler::Argmax)
        .max_tokens(input.max_tokens.unwrap_or(128));
    let probe = generator.probe_each_step(
        0,
        Distribution {
            temperature: 1.0,
            k: 64,
        },
    );

    let mut answer = Vec::new();
    while let Some(mut step) = generator.next()? {
        step.clear_sampler();
        let out = step.execute().await?;
        let (ids, probabilities) = out
            .distribution(probe)
            .ok_or("the pass gave no distribution")?;
        let dice = hash((input.seed, answer.len())) as f32 / u64::MAX as f32;
        let token = draw(
            ids,
            probabilities,
            |id| is_green(&key, before, id),
            boost,
            dice,
        );
        answer.extend(generator.accept(&[token])); // nothing where the token ends the text
        before = token;
    }
    let text = model.tokenizer().decode(&answer)?;
    Ok(report(&key, text, &answer))
}
