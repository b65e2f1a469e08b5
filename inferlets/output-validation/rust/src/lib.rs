//! Says how sure the model was of its answer. Each step reads the probability of the token it chose, so a program can
//! point at the place where the answer is doubtful, ask again, or show it to a person.

use inferlet::prelude::*;
use inferlet::sample::Distribution;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: String,
    threshold: Option<f32>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Checked {
    text: String,
    sure: bool,
    /// The text up to the first token that the model was not sure of.
    sure_until: String,
    /// The tokens that it weighed there, likeliest first.
    weighed: Vec<String>,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Checked> {
    let threshold = input.threshold.unwrap_or(0.5);
    let model = Model::load(&runtime::models()[0])?;
    let tokenizer = model.tokenizer();
    let mut ctx = Context::new(&model)?;
    ctx.user(&input.prompt).cue();
    let generator = ctx.generate(Sampler::Argmax);
    let mut generator = generator.max_tokens(input.max_tokens.unwrap_or(64));
    let probe = generator.probe_each_step(
        0,
        Distribution {
            temperature: 1.0,
            k: 3,
        },
    );

    let mut text = Vec::new();
    let mut doubt: Option<(usize, Vec<u32>)> = None;
    while let Some(step) = generator.next()? {
        let out = step.execute().await?;
        let (ids, probabilities) = out
            .distribution(probe)
            .ok_or("the pass gave no distribution")?;
        if probabilities[0] < threshold && doubt.is_none() {
            doubt = Some((text.len(), ids.to_vec()));
        }
        text.extend(&out.tokens);
    }
    let (until, weighed) = doubt.clone().unwrap_or((text.len(), Vec::new()));
    Ok(Checked {
        text: tokenizer.decode(&text)?,
        sure: doubt.is_none(),
        sure_until: tokenizer.decode(&text[..until])?,
        weighed: weighed
            .iter()
            .map(|id| tokenizer.decode(&[*id]))
            .collect::<Result<_>>()?,
    })
}
