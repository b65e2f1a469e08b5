//! Cases about the runtime, models, tokenizers and chat templates.

use inferlet::prelude::*;
use inferlet::{mcp, scheduling};
use serde_json::{json, Value};

use crate::{model, Input};

pub fn print(input: &Input) -> Result<Value> {
    for text in &input.texts {
        println!("{text}");
    }
    Ok(input.texts.len().into())
}

pub fn runtime_facts() -> Result<Value> {
    Ok(json!({
        "models": runtime::models(),
        "username": runtime::username(),
        "version": !runtime::version().is_empty(),
        "instance_id": !runtime::instance_id().is_empty(),
    }))
}

pub fn tokenizer(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    Ok(json!({ "tokens": tokens, "text": model.tokenizer().decode(&tokens)? }))
}

pub fn decode_special() -> Result<Value> {
    let model = model()?;
    let (tokenizer, cue) = (model.tokenizer(), chat::cue(&model));
    let without = tokenizer.decode_with(&cue, true)?;
    Ok(json!({ "cue": tokenizer.decode(&cue)?, "without": without }))
}

pub fn tokenizer_bad(input: &Input) -> Result<Value> {
    Ok(model()?.tokenizer().decode(&input.tokens)?.into())
}

pub fn vocab() -> Result<Value> {
    let model = model()?;
    let tokenizer = model.tokenizer();
    let (ids, bytes) = tokenizer.vocabs();
    let (_, names) = tokenizer.special_tokens();
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let mut special: Vec<String> = names.iter().map(text).collect();
    special.sort();
    Ok(json!({
        "count": ids.len(),
        "dense": ids.iter().zip(0..).all(|(id, index)| *id == index),
        "a": text(&bytes[tokenizer.encode("a")[0] as usize]),
        "special": special,
        "split_regex": tokenizer.split_regex(),
    }))
}

pub fn chat_tokens(input: &Input) -> Result<Value> {
    let model = model()?;
    Ok(json!({
        "system": chat::system(&model, &input.system),
        "user": chat::user(&model, &input.user),
        "assistant": chat::assistant(&model, &input.assistant),
        "cue": chat::cue(&model),
        "seal": chat::seal(&model),
        "stop": chat::stop_tokens(&model),
    }))
}

pub fn chat_decoder(input: &Input) -> Result<Value> {
    let mut decoder = chat::Decoder::new(&model()?);
    let events = input.batches().into_iter().map(|batch| {
        Ok(match decoder.feed(&batch)? {
            chat::Event::Delta(text) => json!(["delta", text]),
            chat::Event::Done(text) => json!(["done", text]),
            chat::Event::Idle => json!(["idle", null]),
            chat::Event::Interrupt(token) => json!(["interrupt", token]),
        })
    });
    events.collect()
}

pub fn reasoning_decoder(input: &Input) -> Result<Value> {
    let mut decoder = reasoning::Decoder::new(&model()?);
    let events = input.batches().into_iter().map(|batch| {
        Ok(match decoder.feed(&batch)? {
            reasoning::Event::Idle => json!(["idle", null]),
            reasoning::Event::Start => json!(["start", null]),
            reasoning::Event::Delta(text) => json!(["delta", text]),
            reasoning::Event::End(text) => json!(["end", text]),
        })
    });
    events.collect()
}

pub fn tool_decoder(input: &Input) -> Result<Value> {
    let mut decoder = tools::Decoder::new(&model()?);
    let events = input.batches().into_iter().map(|batch| {
        Ok(match decoder.feed(&batch)? {
            tools::Event::Call(name, args) => json!(["call", name, args]),
            tools::Event::Start if decoder.is_assembling() => json!(["start"]),
            tools::Event::Start => json!(["idle"]),
        })
    });
    events.collect()
}

pub fn market() -> Result<Value> {
    let model = model()?;
    let ctx = Context::new(&model)?;
    Ok(json!({
        "price": scheduling::price().is_finite(),
        "rent": scheduling::rent(&ctx).is_finite(),
        "dividend": scheduling::dividend(&model).is_finite(),
        "latency": scheduling::latency(&ctx).is_finite(),
        "balance": scheduling::balance(&model).is_finite(),
    }))
}

pub fn unavailable() -> Result<Value> {
    let says_why = |error: Option<String>| error.is_some_and(|text| !text.is_empty());
    Ok(json!({
        "mcp": says_why(mcp::client::connect("none").err().map(String::from)),
    }))
}
