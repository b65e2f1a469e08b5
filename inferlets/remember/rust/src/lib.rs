//! A conversation that goes on where it ended: its context is saved under a name, and opened the next time with all
//! that was computed.

use inferlet::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    prompt: String,
    #[serde(default = "chat_name")]
    name: String,
    #[serde(default = "some")]
    max_tokens: usize,
}

fn chat_name() -> String {
    "chat".into()
}

fn some() -> usize {
    32
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = match Context::open(&model, &input.name) {
        Ok(ctx) => ctx,
        Err(error) if error.contains("no snapshot") => Context::new(&model)?,
        Err(error) => return Err(error),
    };
    let known = ctx.seq_len();
    let answer = ctx
        .user(&input.prompt)
        .cue()
        .generate(Sampler::Argmax)
        .max_tokens(input.max_tokens)
        .collect_text()
        .await?;
    ctx.seal().flush().await?; // so that seq_len below counts all tokens
    ctx.save(&input.name)?;
    let total = ctx.seq_len();
    Ok(format!("{answer}\n[{known} tokens remembered, {total} saved]"))
}
