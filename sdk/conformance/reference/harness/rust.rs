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
    all_rows(&model, &mut errors).await;
    Ok(serde_json::json!({ "errors": errors }))
}
