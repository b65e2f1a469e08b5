//! The engine refuses with an error, and the program goes on.

use inferlet::prelude::*;
use inferlet::sample::Distribution;
use inferlet::{mcp, session, Regex};
use serde_json::{json, Value};

use crate::{model, Input};

/// Whether it is an error, and has a text.
fn says_why(result: Result<()>) -> bool {
    result.is_err_and(|text| !text.is_empty())
}

pub async fn refusals(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut queued = 0;
    let full = loop {
        match messaging::try_push(&input.topic, "message") {
            Ok(()) => queued += 1,
            Err(error) => break error,
        }
    };
    let topic = messaging::try_push(&"t".repeat(2000), "message");
    let send = session::try_send(&"x".repeat((16 << 20) + 1));
    let mut ctx = Context::new(&model)?;
    ctx.append(&[97]).set_bid(-1.0);
    let bid = ctx.flush().await;
    let regex = ctx.generate(Sampler::Argmax).constrain_with(Regex("("));
    let regex = regex.map(drop);
    let truncate = Context::new(&model)?.truncate(1);
    let generator = ctx.generate(Sampler::Argmax).max_tokens(3);
    let tokens = generator.ignore_eos().collect_tokens().await?;
    Ok(json!({
        "queue": queued,
        "push": !full.is_empty(),
        "topic": says_why(topic),
        "send": says_why(send),
        "bid": says_why(bid),
        "regex": says_why(regex),
        "truncate": says_why(truncate),
        "goes_on": tokens.len() == 3,
    }))
}

/// Nothing of this compiles, so nothing of it can go wrong when it runs.
pub fn wrong_types() -> Result<Value> {
    Ok(json!([
        "text",
        "tokens",
        "fraction",
        "negative",
        "count",
        "sampler",
        "limit",
        "temperature",
        "row",
        "pattern",
        "topic",
        "bytes",
        "name"
    ]))
}

/// Whether it is an error whose text begins with the argument's name.
fn names<T>(argument: &str, result: Result<T>) -> bool {
    result.is_err_and(|text| text.starts_with(&format!("{argument} must be ")))
}

pub async fn wrong_ranges() -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    ctx.append(&[97]);
    let mut failed = Vec::new();
    for (name, argument, sampler) in [
        ("temperature", "temperature", Sampler::top_p(-1.0, 0.9)),
        ("top_p", "p", Sampler::top_p(1.0, 2.0)),
        ("min_p", "p", Sampler::min_p(1.0, -0.5)),
    ] {
        if names(argument, ctx.generate(sampler).next()) {
            failed.push(name);
        }
    }
    let mut forward = ctx.forward();
    forward.input(&[97]);
    forward.probe(
        0,
        Distribution {
            temperature: -1.0,
            k: 5,
        },
    );
    if names("temperature", forward.execute().await) {
        failed.push("distribution");
    }
    Ok(json!(failed))
}

pub fn mcp_error() -> Result<Value> {
    let Err(error) = mcp::connect("none") else {
        return Ok(json!({}));
    };
    let text = error.to_string();
    let has_code = text.ends_with(&format!(" (code {})", error.code));
    Ok(json!({ "text": text, "has_code": has_code }))
}
