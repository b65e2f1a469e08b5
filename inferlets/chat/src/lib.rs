//! A conversation. The context stays between turns, so no prompt is computed, or even sent, twice.
//!
//! Its client sends JSON: `{"say": "…"}` is a turn, `{"stop": true}` ends the answer, `{"system": "…"}` begins a new
//! conversation. It answers with `{"delta": "…"}` and, at the end, `{"done": {"tokens": …, "seconds": …}}`.

use inferlet::chat::{Decoder, Event};
use inferlet::futures::future::{select, Either, LocalBoxFuture};
use inferlet::futures::FutureExt;
use inferlet::prelude::*;
use inferlet::session;
use serde::Deserialize;
use serde_json::{json, Value};
use std::time::Instant;

#[derive(Deserialize)]
struct Input {
    model: Option<String>,
    system: Option<String>,
    temperature: Option<f32>,
    max_tokens: Option<usize>,
}

type Inbox = LocalBoxFuture<'static, Option<String>>;

fn listen() -> Inbox {
    async { session::receive().wait_async().await }.boxed_local()
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let name = match &input.model {
        Some(name) => name.clone(),
        None => runtime::models().first().cloned().ok_or("the engine has no model")?,
    };
    let model = Model::load(&name)?;
    let mut context = begin(&model, input.system.as_deref())?;
    let mut inbox = listen();
    while let Some(message) = inbox.await {
        inbox = listen();
        let message: Value = serde_json::from_str(&message).unwrap_or_default();
        if let Some(system) = message["system"].as_str() {
            context = begin(&model, Some(system))?;
        } else if let Some(text) = message["say"].as_str() {
            context.user(text).cue();
            inbox = answer(&model, &mut context, &input, inbox).await?;
            context.seal();
        }
    }
    Ok(String::new()) // the client has left
}

fn begin(model: &Model, system: Option<&str>) -> Result<Context> {
    let mut context = Context::new(model)?;
    if let Some(text) = system.filter(|text| !text.is_empty()) {
        context.system(text);
    }
    Ok(context)
}

/// Generates one answer. A message that comes meanwhile ends it; a `stop` is all that a client sends then.
async fn answer(
    model: &Model,
    context: &mut Context,
    input: &Input,
    mut inbox: Inbox,
) -> Result<Inbox> {
    let began = Instant::now();
    let mut decoder = Decoder::new(model);
    let sampler = Sampler::top_p(input.temperature.unwrap_or(0.7), 0.95);
    let mut generator = context.generate(sampler).max_tokens(input.max_tokens.unwrap_or(2048));
    let mut stopped = false;
    while let Some(step) = generator.next()? {
        let step = step.execute().boxed_local();
        let output = match select(step, inbox).await {
            Either::Left((output, waiting)) => {
                inbox = waiting;
                output?
            }
            Either::Right((_, step)) => {
                inbox = listen();
                stopped = true;
                step.await?
            }
        };
        let mut event = decoder.feed(&output.tokens)?;
        if let Event::Interrupt(_) = event {
            event = decoder.feed(&[])?; // the text around the control token
        }
        if let Event::Delta(text) = event {
            session::send(&json!({ "delta": text }).to_string());
        }
        if stopped {
            break;
        }
    }
    let tokens = generator.tokens_generated();
    let done =
        json!({ "tokens": tokens, "seconds": began.elapsed().as_secs_f64(), "stopped": stopped });
    session::send(&json!({ "done": done }).to_string());
    Ok(inbox)
}
