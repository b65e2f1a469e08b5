//! The conformance table in Rust: see ../../README.md for what each case does.

mod adapters;
mod chains;
mod constraints;
mod contexts;
mod forwards;
mod generations;
mod messages;
mod models;
mod refusals;
mod speculations;

use inferlet::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
struct Table {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    case: String,
    #[serde(default)]
    input: Input,
}

/// The input of a case. Which fields there are depends on the case.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Input {
    value: Value,
    text: String,
    texts: Vec<String>,
    prompt: String,
    system: String,
    user: String,
    assistant: String,
    name: String,
    topic: String,
    token: u32,
    tokens: Vec<u32>,
    batches: Option<Vec<Vec<u32>>>,
    allowed: Vec<u32>,
    max_tokens: usize,
    seed: u64,
    ms: u64,
    n: u32,
    script: Vec<Step>,
    kind: String,
    source: String,
    sampler: String,
    tools: Vec<String>,
}

impl Input {
    /// The tokens that a decoder is fed: the batches, or else one token at a time.
    fn batches(&self) -> Vec<Vec<u32>> {
        let one_by_one = || self.tokens.iter().map(|token| vec![*token]).collect();
        self.batches.clone().unwrap_or_else(one_by_one)
    }
}

/// One line of a `turns` script.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Step {
    r#do: String,
    text: String,
    name: String,
    tools: Vec<String>,
    tokens: Vec<u32>,
    calls: Vec<Call>,
}

/// A call of a tool, in a `turns` script.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct Call {
    name: String,
    arguments: String,
    id: String,
}

#[derive(Serialize)]
struct Results {
    results: Vec<Answer>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Ok { case: String, ok: Value },
    Error { case: String, error: String },
}

#[inferlet::main]
async fn main(table: Table) -> Result<Results> {
    let mut results = Vec::new();
    for Case { case, input } in table.cases {
        results.push(match run(&case, &input).await {
            Ok(ok) => Answer::Ok {
                case,
                ok: rounded(ok),
            },
            Err(error) => Answer::Error { case, error },
        });
    }
    Ok(Results { results })
}

async fn run(case: &str, input: &Input) -> Result<Value> {
    match case {
        "echo" => Ok(input.value.clone()),
        "print" => models::print(input),
        "runtime" => models::runtime_facts(),
        "tokenizer" => models::tokenizer(input),
        "decode_special" => models::decode_special(),
        "tokenizer_bad" => models::tokenizer_bad(input),
        "vocab" => models::vocab(),
        "chat_tokens" => models::chat_tokens(input),
        "chat_decoder" => models::chat_decoder(input),
        "reasoning_decoder" => models::reasoning_decoder(input),
        "tool_decoder" => models::tool_decoder(input),
        "scheduling" => models::market(),
        "adapter" => adapters::adapter(input).await,
        "unavailable" => models::unavailable(),
        "context" => contexts::context(input).await,
        "flush_empty" => contexts::flush_empty().await,
        "turns" => contexts::turns(input).await,
        "template_option" => contexts::template_option(input),
        "cached_tokens" => contexts::cached_tokens(input).await,
        "fork" => contexts::fork(input).await,
        "fork_parallel" => contexts::fork_parallel(input).await,
        "rollback" => contexts::rollback(input).await,
        "save_buffered" => contexts::save_buffered(input).await,
        "wrong_types" => refusals::wrong_types(),
        "wrong_ranges" => refusals::wrong_ranges().await,
        "mcp_error" => refusals::mcp_error(),
        "released" => contexts::released(input).await,
        "forgotten" => contexts::forgotten(input).await,
        "keep" => contexts::keep(input).await,
        "open_named" => contexts::open_named(input),
        "save_open" => contexts::save_open(input).await,
        "forward" => forwards::forward(input).await,
        "embedding" => forwards::embedding(input).await,
        "forward_rows" => forwards::forward_rows(input).await,
        "forward_empty" => forwards::forward_empty().await,
        "forward_mask" => forwards::forward_mask(input).await,
        "attention_mask" => forwards::attention_mask(input).await,
        "input_at" => forwards::input_at(input).await,
        "draws" => forwards::draws(input).await,
        "generate_tokens" => generations::tokens(input).await,
        "generate_flushed" => generations::flushed(input).await,
        "generate_text" => generations::text(input).await,
        "generate_steps" => generations::steps(input).await,
        "generate_manual" => generations::manual(input).await,
        "generate_override" => generations::overridden(input).await,
        "generate_constrained" => generations::constrained(input).await,
        "generate_masked" => generations::masked(input).await,
        "generate_probed" => generations::probed(input).await,
        "generate_seeded" => generations::seeded(input).await,
        "generate_stops" => generations::stops(input).await,
        "generate_special" => generations::special(input).await,
        "generate_chained" => chains::chained(input).await,
        "generate_left" => chains::left(input).await,
        "generate_cancelled" => chains::cancelled(input).await,
        "matcher" => constraints::matcher(input),
        "grammar_bad" => constraints::grammar_bad(input),
        "generate_grammar" => constraints::generate_grammar(input).await,
        "generate_conflict" => constraints::generate_conflict(input).await,
        "collect_json" => constraints::collect_json(input).await,
        "collect_thinking" => constraints::collect_thinking(input).await,
        "native_bad" => constraints::native_bad(input).await,
        "native_call" => constraints::native_call(input).await,
        "collect_typed" => constraints::collect_typed(input).await,
        "draft_positions" => speculations::draft_positions(input).await,
        "speculate_probed" => speculations::speculate_probed(input).await,
        "speculate" => speculations::speculate(input).await,
        "system_speculation" => speculations::system_speculation(input).await,
        "sleep_order" => messages::sleep_order().await,
        "timeout" => messages::timeout(input).await,
        "overflow" => messages::overflow(input).await,
        "push_wait" => messages::push_wait(input).await,
        "push_pull" => messages::push_pull(input).await,
        "refusals" => refusals::refusals(input).await,
        "broadcast" => messages::broadcast(input).await,
        _ => Err(format!("there is no case {case}")),
    }
}

/// The engine's first model.
fn model() -> Result<Model> {
    Model::load(&runtime::models()[0])
}

/// A mask that allows these tokens only.
fn allow_only(tokens: &[u32]) -> Vec<u32> {
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut end = 0;
    let runs = sorted.into_iter().flat_map(|token| {
        let gap = token - end;
        end = token + 1;
        [gap, 1]
    });
    runs.collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// The index of the largest logit; the first of equal ones.
fn argmax(logits: &[u8]) -> u32 {
    let values = floats(logits);
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best as u32
}

/// Floats to 4 places, everywhere.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64().unwrap_or_default();
            ((value * 1e4).round() / 1e4).into()
        }
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (key, rounded(value)))
            .collect(),
        other => other,
    }
}
