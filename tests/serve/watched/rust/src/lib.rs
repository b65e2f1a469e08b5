//! Holds a context of some hundred tokens with forks, and generates a token now and then, so that
//! there is something to watch. Any message ends it.

use inferlet::prelude::*;
use inferlet::time::sleep;
use inferlet::session;
use serde_json::{json, Value};
use std::time::Duration;

#[inferlet::main]
async fn main(input: Value) -> Result<String> {
    let word = input["word"].as_str().ok_or("the word is missing")?;
    let forks = input["forks"].as_u64().unwrap_or(0);
    let pause = Duration::from_secs_f64(input["pause_s"].as_f64().unwrap_or(0.05));
    let loud = input["loud"].as_bool().unwrap_or(true);

    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.user(&format!("{word} ").repeat(100)).cue();
    ctx.flush().await?;
    let held = (0..forks)
        .map(|_| ctx.fork())
        .collect::<Result<Vec<Context>>>()?;
    session::send(&format!("input {input}\n"));

    let mut generator = ctx.generate(Sampler::Argmax).max_tokens(5_000).ignore_eos();
    let message = session::receive();
    let mut tokens = 0;
    while let Some(step) = generator.next()? {
        tokens += step.execute().await?.tokens.len();
        if loud {
            session::send(&format!("token {tokens} <b>{word}</b>\n"));
        }
        sleep(pause).await;
        if let Some(text) = message.get() {
            return Ok(json!({"said": text, "forks": held.len()}).to_string());
        }
    }
    Ok(json!(tokens).to_string())
}
