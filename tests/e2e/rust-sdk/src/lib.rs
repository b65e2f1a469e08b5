//! Promises of the Rust SDK alone, one check per run. `../test_rust_sdk.py` has the right answers.

mod generations;
mod passes;
mod waiting;

use inferlet::prelude::*;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Input {
    check: String,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Value> {
    match input.check.as_str() {
        "accept_overrides" => generations::accept_overrides().await,
        "accept_cuts" => generations::accept_cuts().await,
        "speculation" => generations::speculation().await,
        "constraints_together" => generations::constraints_together().await,
        "second_turn" => generations::second_turn().await,
        "no_tokens" => generations::no_tokens().await,
        "nothing_to_continue" => generations::nothing_to_continue().await,
        "json" => generations::json().await,
        "flattened_json" => generations::flattened_json().await,
        "two_drafters" => generations::two_drafters().await,
        "wrong_tools" => generations::wrong_tools().await,
        "described_tool" => generations::described_tool(),
        "boxed_schema" => generations::boxed_schema().await,
        "failed_pass" => passes::failed_pass().await,
        "scored_tokens_last" => passes::scored_tokens_last().await,
        "pages" => passes::pages().await,
        "raw_pass" => passes::raw_pass().await,
        "bids" => passes::bids().await,
        "timeout" => waiting::timeout().await,
        "cancelled_pull" => waiting::cancelled_pull().await,
        "cancelled_step" => waiting::cancelled_step().await,
        "many_waits" => waiting::many_waits().await,
        "busy_neighbour" => waiting::busy_neighbour().await,
        "other_reactor" => waiting::other_reactor().await,
        "spawned_tasks" => waiting::spawned_tasks().await,
        "outlives_main" => waiting::outlives_main(),
        "launch_unknown" => waiting::launch_unknown(),
        "stuck" => waiting::stuck().await,
        "panics" => panic!("this inferlet panics"),
        other => Err(format!("there is no check {other}")),
    }
}

fn model() -> Result<Model> {
    Model::load(&runtime::models()[0])
}

/// A context that asks something and waits for the model's turn.
fn asked() -> Result<Context> {
    let mut ctx = Context::new(&model()?)?;
    ctx.user("Tell me about pie.").cue();
    Ok(ctx)
}

/// The greedy successor of a token, which is then removed from the context. Equal caches give equal
/// successors.
async fn next_token(ctx: &mut Context) -> Result<Option<u32>> {
    ctx.flush().await?;
    let mut forward = ctx.forward();
    let position = forward.start_position();
    let handle = forward
        .input_at(&[120], &[position])
        .sample(&[0], Sampler::Argmax);
    Ok(forward.execute().await?.token(handle))
}
