//! Extracts an order from a text. The answer always fits the type.

use inferlet::prelude::*;
use inferlet::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    text: String,
    #[serde(default)]
    temperature: f32,
    #[serde(default)]
    seed: u64,
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
    ctx.system("Answer with the order as JSON.")
        .user(&input.text)
        .cue();
    let sampler = Sampler::top_p(input.temperature, 0.95);
    let generator = ctx.generate(sampler).seed(input.seed);
    generator
        .max_tokens(input.max_tokens.unwrap_or(400))
        .collect_json()
        .await
}
