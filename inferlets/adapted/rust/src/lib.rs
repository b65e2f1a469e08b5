//! One question, answered by the model alone and under an adapter. The two share the pages of the question.

use inferlet::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(default)]
struct Input {
    adapter: String,
    prompt: String,
    max_tokens: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            adapter: "ahoy".into(),
            prompt: "What is your favourite colour?".into(),
            max_tokens: 24,
        }
    }
}

#[derive(Serialize)]
struct Answers {
    plain: String,
    adapted: String,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Answers> {
    let model = Model::load(&runtime::models()[0])?;
    let adapter = Adapter::open(&model, &input.adapter).ok_or_else(|| {
        format!(
            "no adapter is named '{}': run `evolve` first",
            input.adapter
        )
    })?;
    let mut question = Context::new(&model)?;
    question.user(&input.prompt).flush().await?;

    let mut ctx = question.fork()?;
    let plain = ctx
        .cue()
        .generate(Sampler::Argmax)
        .max_tokens(input.max_tokens)
        .collect_text()
        .await?;
    let adapted = question
        .cue()
        .generate(Sampler::Argmax)
        .adapter(&adapter)
        .max_tokens(input.max_tokens)
        .collect_text()
        .await?;
    Ok(Answers { plain, adapted })
}
