//! {{description}}: asks the model one question and returns its answer.

use inferlet::prelude::*;
use serde::Deserialize;

/// The parameters of Pie.toml.
#[derive(Deserialize)]
#[serde(default)]
struct Input {
    prompt: String,
    max_tokens: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            prompt: "Tell me about pie.".into(),
            max_tokens: 64,
        }
    }
}

/// Runs inside the engine. A `String` is returned unchanged, any other value as JSON.
#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.system("You are a helpful assistant.")
        .user(&input.prompt)
        .cue();

    ctx.generate(Sampler::top_p(0.6, 0.95))
        .max_tokens(input.max_tokens)
        .collect_text()
        .await
}
