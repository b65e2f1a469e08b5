//! Runs the rows of the reference in Rust. `{rows}` are made from the *.rows files.
#![allow(warnings)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use inferlet::prelude::*;
use inferlet::sample::{Distribution, Entropy, Logits, Logprob, Logprobs};
use serde::Deserialize;

const TUNING: inferlet::zo::Search =
    inferlet::zo::Search { rank: 2, alpha: 2.0, population_size: 4, mu_fraction: 0.5, initial_sigma: 0.5 };
const SCHEMA: &str = r#"{"name": "f", "description": "d", "parameters": {"type": "object", "properties":
    {"x": {"type": "integer"}}, "required": ["x"]}}"#;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Flag {
    ok: bool,
}

struct MySpec;
impl inferlet::Speculator for MySpec {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        (vec![], vec![])
    }
    fn accept(&mut self, accepted: &[u32]) {}
    fn rollback(&mut self, n: u32) {}
    fn reset(&mut self) {}
}

/// `rollback` and `reset` have defaults.
struct OnlyTwo;
impl inferlet::spec::Speculator for OnlyTwo {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        (vec![], vec![])
    }
    fn accept(&mut self, accepted: &[u32]) {}
}

struct OnlyA;
impl inferlet::Constrain for OnlyA {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        &[97, 1]
    }
}

struct MySchema;
impl Schema for MySchema {
    fn build_constraint(&self, model: &Model) -> Result<inferlet::GrammarConstraint> {
        Ok(inferlet::GrammarConstraint::json(model))
    }
}

fn check(condition: bool) -> Result<()> {
    if condition { Ok(()) } else { Err("the check does not hold".into()) }
}

fn fresh() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("reference-rust-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn letter(model: &Model, text: &str) -> u32 {
    model.tokenizer().encode(text)[0]
}

/// All tokens of the vocabulary.
fn every(model: &Model) -> Vec<u32> {
    model.tokenizer().vocabs().0
}

/// A special token that does not end a turn.
fn special(model: &Model) -> u32 {
    let stops = chat::stop_tokens(model);
    let (ids, _) = model.tokenizer().special_tokens();
    ids.into_iter().filter(|id| !stops.contains(id)).min().expect("a special token")
}

/// Whether the tokens are a text that consists of these letters alone.
fn holds(model: &Model, tokens: &[u32], letters: &str) -> Result<bool> {
    Ok(model.tokenizer().decode(tokens)?.chars().all(|found| letters.contains(found)))
}

/// Whether a mask allows the token. The mask is a list of runs; the first run is not allowed.
fn allows(mask: &[u32], token: u32) -> bool {
    let mut end = 0;
    let within = mask.iter().position(|run| { end += run; token < end });
    within.is_some_and(|run| run % 2 == 1)
}

fn allow_only(tokens: &[u32]) -> Vec<u32> {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    let (mut mask, mut next) = (vec![], 0);
    for token in tokens {
        mask.extend([token - next, 1]);
        next = token + 1;
    }
    mask
}

// {rows}

#[derive(Deserialize)]
struct Input {
    fail: Option<String>,
    panic: Option<String>,
    real: Option<bool>,
}

#[inferlet::main]
async fn main(input: Input) -> Result<serde_json::Value> {
    if let Some(message) = input.fail {
        return Err(message);
    }
    if let Some(message) = input.panic {
        panic!("{message}");
    }
    let model = Model::load(&runtime::models()[0])?;
    let mut errors = BTreeMap::new();
    all_rows(&model, input.real.is_some(), &mut errors).await;
    Ok(serde_json::json!({ "errors": errors }))
}
