//! Extracts an order from a text. The answer always fits the type.

use inferlet::prelude::*;
use inferlet::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    text: String,
    seed: Option<u64>,
    max_tokens: Option<usize>,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

#[derive(Deserialize, Serialize, JsonSchema)]
struct Order {
    pies: u8,
    size: Size,
    warm: bool,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Order> {
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.system("Answer with the order as JSON.").user(&input.text).cue();
    let generator = match input.seed {
        None => ctx.generate(Sampler::Argmax),
        Some(seed) => ctx.generate(Sampler::top_p(1.0, 0.95)).seed(seed),
    };
    generator.max_tokens(input.max_tokens.unwrap_or(400)).collect_json().await
}
