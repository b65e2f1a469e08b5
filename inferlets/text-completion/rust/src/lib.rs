//! One chat turn: every piece of text is sent to the client as it comes, the whole is returned.

use inferlet::prelude::*;
use inferlet::session;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    prompt: String,
    #[serde(default = "default_max_tokens")]
    max_tokens: usize,
    #[serde(default = "default_temperature")]
    temperature: f32,
    #[serde(default = "default_system")]
    system: String,
}

fn default_max_tokens() -> usize {
    256
}

fn default_temperature() -> f32 {
    0.6
}

fn default_system() -> String {
    "You are a helpful assistant.".into()
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.system(&input.system).user(&input.prompt).cue();

    let mut generator = ctx
        .generate(Sampler::top_p(input.temperature, 0.95))
        .max_tokens(input.max_tokens);
    let mut decoder = chat::Decoder::new(&model);
    let mut text = String::new();
    while let Some(step) = generator.next()? {
        let out = step.execute().await?;
        if let chat::Event::Delta(delta) = decoder.feed(&out.tokens)? {
            session::send(&delta);
            text.push_str(&delta);
        }
    }
    Ok(text)
}
