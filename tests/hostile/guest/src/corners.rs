//! Attacks by corners of the interfaces, and by what multiplies.

use inferlet::pie::core::inference::{ForwardPass, Sampler as RawSampler};
use inferlet::pie::core::{adapter::Adapter as RawAdapter, messaging, runtime as raw_runtime};
use inferlet::pie::instruct::{reasoning, tool_use};
use inferlet::pie::plus::{adapters, bidding, turns};
use inferlet::prelude::*;
use inferlet::wasi::clocks::monotonic_clock;
use std::mem::forget;

/// Runs an attack. Returns none for a mode that is none of these. `n` is its size.
pub fn run(mode: &str, n: usize, model: &Model) -> Option<Result<String>> {
    Some(match mode {
        "bid_storm" => bid_storm(model, n),
        "children_with_their_parent" => children_with_their_parent(n),
        "leave_and_end" => leave_and_end(n),
        "held_spaces" => held_spaces(model, n),
        "partial_call" => partial_call(model, n),
        "large_tools" => large_tools(model, n),
        "adapter_churn" => adapter_churn(model, n),
        "save_and_delete" => save_and_delete(model, n as u32),
        "subscribe_and_leave" => subscribe_and_leave(n),
        "topics_again" => topics_again(n),
        "one_token_turns" => one_token_turns(model, n),
        "distributions" => distributions(model, n as u32),
        "return_many" => return_many(n),
        _ => return None,
    })
}

/// Changes the bids of many contexts, with all numbers that a float can be.
fn bid_storm(model: &Model, contexts: usize) -> Result<String> {
    let held: Vec<Context> = (0..contexts)
        .map(|_| Context::new(model))
        .collect::<Result<_>>()?;
    let values = [0.0, 1e-320, 1.0, 1e308, f64::INFINITY];
    for i in 0.. {
        let value = values[i % values.len()];
        for ctx in &held {
            let raw = ctx.inner();
            raw.bid(value);
            bidding::once(raw, value).ok();
            bidding::expect(raw, Some(value), value).ok();
            bidding::idle(raw, i % 2 == 0).ok();
            raw.suspend().ok();
        }
        let pass = ForwardPass::new(model.inner());
        let raw = held[i % contexts].inner();
        raw.reserve_working_pages(1)?;
        pass.context(raw);
        pass.input_tokens(&[97], &[0]);
        pass.execute()?.pollable().block();
        raw.truncate_working_page_tokens(1);
    }
    Ok("bid".into())
}

/// Launches inferlets that launch many, and ends them.
fn children_with_their_parent(n: usize) -> Result<String> {
    let input = format!(r#"{{"mode": "leave_and_end", "n": {n}}}"#);
    loop {
        let child = raw_runtime::launch("hostile", &input)?;
        child.pollable().block();
    }
}

/// Launches as many as it may, and ends.
fn leave_and_end(n: usize) -> Result<String> {
    for _ in 0..n {
        match raw_runtime::launch("hostile", r#"{"mode": "sleep"}"#) {
            Ok(child) => forget(child),
            Err(_) => break,
        }
    }
    Ok("left".into())
}

/// Feeds a decoder with spaces, which it holds back, and then with one token after another.
fn held_spaces(model: &Model, bytes: usize) -> Result<String> {
    let decoder = reasoning::create_decoder(model.inner());
    let text = format!("<think>x{}", " ".repeat(bytes));
    for part in model.tokenizer().encode(&text).chunks(1 << 16) {
        decoder.feed(part)?;
    }
    loop {
        decoder.feed(&[32])?;
    }
}

/// Feeds a decoder of tool calls with a call that does not end, one token after another.
fn partial_call(model: &Model, bytes: usize) -> Result<String> {
    let decoder = tool_use::create_decoder(model.inner());
    let text = format!(
        "<tool_call>\n{{\"name\": \"f\", \"arguments\": {{\"a\": \"{}",
        "x".repeat(bytes)
    );
    loop {
        for part in model.tokenizer().encode(&text).chunks(1 << 16) {
            decoder.feed(part)?;
        }
        for _ in 0..1_000 {
            decoder.feed(&[120])?;
        }
        decoder.reset();
    }
}

/// Gives the model tools whose schemas are long.
fn large_tools(model: &Model, bytes: usize) -> Result<String> {
    let lists = "[],".repeat(bytes / 3);
    let tool = format!(r#"{{"name": "f", "parameters": {{"x": [{lists}0]}}}}"#);
    loop {
        let turn = turns::Turn {
            kind: turns::Kind::Tools,
            text: String::new(),
            name: String::new(),
            tools: vec![tool.clone()],
        };
        turns::extend(model.inner(), &[], &[turn]).ok();
    }
}

/// Makes, forks, lists and destroys adapters.
fn adapter_churn(model: &Model, n: usize) -> Result<String> {
    let id = inferlet::runtime::instance_id();
    loop {
        let mut made = vec![];
        for i in 0..n {
            match RawAdapter::create(model.inner(), &format!("{id} {i}")) {
                Ok(adapter) => made.push(adapter),
                Err(_) => break,
            }
            if let Ok(fork) = adapters::fork(&made[i], &format!("{id} {i} again")) {
                adapters::destroy(&fork)?;
            }
            adapters::names(model.inner())?;
        }
        for adapter in &made {
            adapters::destroy(adapter)?;
        }
    }
}

/// Saves a context, opens it and deletes it, as fast as possible.
fn save_and_delete(model: &Model, tokens: u32) -> Result<String> {
    let ctx = Context::new(model)?;
    let page = ctx.inner().tokens_per_page();
    ctx.inner().reserve_working_pages(tokens / page + 1)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    pass.input_tokens(
        &vec![97; tokens as usize],
        &(0..tokens).collect::<Vec<u32>>(),
    );
    pass.execute()?.pollable().block();
    let name = inferlet::runtime::instance_id();
    loop {
        // There may be too many saves or opened contexts at the moment.
        if ctx.inner().save(&name).is_ok() {
            Context::open(model, &name).ok();
            Context::delete(model, &name).ok();
        }
    }
}

/// Subscribes to one topic and leaves it again.
fn subscribe_and_leave(n: usize) -> Result<String> {
    loop {
        let held: Vec<_> = (0..n).map(|_| messaging::subscribe("crowd")).collect();
        messaging::broadcast("crowd", "x");
        drop(held);
    }
}

/// Leaves a message in each of many topics, and takes them all.
fn topics_again(n: usize) -> Result<String> {
    loop {
        for i in 0..n {
            messaging::push(&format!("again {i}"), "x");
        }
        for i in 0..n {
            let letter = messaging::pull(&format!("again {i}"));
            letter.pollable().block();
            letter.get();
        }
    }
}

/// Formats as many turns as a call takes.
fn one_token_turns(model: &Model, n: usize) -> Result<String> {
    let one = |_| turns::Turn {
        kind: turns::Kind::User,
        text: "a".into(),
        name: String::new(),
        tools: vec![],
    };
    let all: Vec<_> = (0..n).map(one).collect();
    loop {
        turns::extend(model.inner(), &[], &all)?;
    }
}

/// Asks for the distribution of every row, and holds the results.
fn distributions(model: &Model, rows: u32) -> Result<String> {
    let all: Vec<u32> = (0..rows).collect();
    loop {
        let ctx = Context::new(model)?;
        let page = ctx.inner().tokens_per_page();
        ctx.inner().reserve_working_pages(rows / page + 1)?;
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        pass.input_tokens(&vec![97; rows as usize], &all);
        pass.sampler(&all, &RawSampler::RawLogits);
        let future = pass.execute()?;
        future.pollable().block();
        monotonic_clock::subscribe_duration(20_000_000).block();
        drop(future);
    }
}

/// Launches children that return much, and looks at what they return again and again.
fn return_many(bytes: usize) -> Result<String> {
    let input = format!(r#"{{"mode": "return_big", "n": {bytes}}}"#);
    let child = raw_runtime::launch("hostile", &input)?;
    child.pollable().block();
    loop {
        child.get();
    }
}
