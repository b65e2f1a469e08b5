//! Draws several answers to one prompt and returns the likeliest. The prompt is computed once. One pass over the tokens
//! of an answer reads how likely each of them was.

use futures::future::try_join_all;
use inferlet::prelude::*;
use inferlet::sample::Logprob;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: String,
    n: Option<usize>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Answer {
    text: String,
    /// The mean log-probability of its tokens.
    score: f32,
}

async fn draw(prefix: &Context, max_tokens: usize) -> Result<Answer> {
    let mut ctx = prefix.fork()?;
    let generator = ctx.cue().generate(Sampler::top_p(1.0, 0.95));
    let tokens = generator.max_tokens(max_tokens).collect_tokens().await?;

    let model = prefix.model();
    let cue = chat::cue(model);
    let mut judge = prefix.fork()?;
    let mut pass = judge.forward();
    pass.input(&cue).input(&tokens);
    // The last row of the cue predicts the first token.
    let rows = cue.len() as u32 - 1..;
    let probes: Vec<_> = rows
        .zip(&tokens)
        .map(|(row, token)| pass.probe(row, Logprob(*token)))
        .collect();
    let out = pass.execute().await?;
    let sum: f32 = probes
        .into_iter()
        .filter_map(|probe| Some(out.logprobs(probe)?[0]))
        .sum();
    let text = model.tokenizer().decode(&tokens)?;
    Ok(Answer {
        text,
        score: sum / tokens.len().max(1) as f32,
    })
}

#[inferlet::main]
async fn main(input: Input) -> Result<Answer> {
    let model = Model::load(&runtime::models()[0])?;
    let mut prefix = Context::new(&model)?;
    prefix.user(&input.prompt).flush().await?;
    let draws = (0..input.n.unwrap_or(8)).map(|_| draw(&prefix, input.max_tokens.unwrap_or(64)));
    let answers = try_join_all(draws).await?;
    let best = answers
        .into_iter()
        .max_by(|a, b| a.score.total_cmp(&b.score));
    best.ok_or_else(|| "n must be at least 1".into())
}
