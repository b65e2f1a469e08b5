//! Tests of generators: overridden tokens, cuts, drafts.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use inferlet::prelude::*;
use inferlet::Constrain;
use serde_json::{json, Value};

use crate::{asked, model, next_token};

/// `g.accept` after a step replaces the step's token, in the count and in the cache.
pub async fn accept_overrides() -> Result<Value> {
    let mut ctx = asked()?;
    let start = ctx.buffer().len() as u32;
    let mut g = ctx.generate(Sampler::Argmax).max_tokens(40);
    let mut letters = (97..).take(26).cycle();
    let mut chosen = Vec::new();
    while let Some(step) = g.next()? {
        step.execute().await?;
        chosen.extend(g.accept(&[letters.next().unwrap_or(97)]));
    }
    let generated = g.tokens_generated();

    let mut expected = asked()?;
    expected.append(&chosen);
    let same = next_token(&mut ctx).await? == next_token(&mut expected).await?;
    let length = ctx.seq_len() - start;
    Ok(
        json!({ "generated": generated, "length": length, "same_cache": same, "last": chosen.last() }),
    )
}

pub async fn accept_cuts() -> Result<Value> {
    let mut ctx = asked()?;
    let mut g = ctx.generate(Sampler::Argmax).max_tokens(5).stop(&[120]);
    let mut kept = Vec::new();
    for tokens in [vec![97, 98, 99], vec![100, 120, 101]] {
        let mut step = g.next()?.ok_or("ended early")?;
        step.clear_sampler();
        let out = step.execute().await?;
        kept.push(json!([
            g.accept(&tokens),
            out.tokens,
            out.auto_sampler().is_none()
        ]));
    }
    let ended = g.next()?.is_none();
    Ok(json!({ "kept": kept, "ended": ended, "done": g.is_done(), "more": g.accept(&[97]) }))
}

/// Drafts the right continuation, except for a wrong token at every `wrong_every`th place.
struct Oracle {
    text: Vec<u32>,
    at: usize,
    wrong_every: usize,
    rolled_back: Arc<AtomicU32>,
}

impl Speculator for Oracle {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        let end = self.text.len().min(self.at + 6);
        let wrong = |index: usize| self.wrong_every > 0 && index.is_multiple_of(self.wrong_every);
        let tokens = (self.at..end)
            .map(|i| if wrong(i) { 1 } else { self.text[i] })
            .collect();
        (tokens, Vec::new())
    }

    fn accept(&mut self, accepted: &[u32]) {
        self.at += accepted.len();
    }

    fn rollback(&mut self, n: u32) {
        self.rolled_back.fetch_add(n, Ordering::Relaxed);
    }
}

/// Speculation changes the number of passes and nothing else.
pub async fn speculation() -> Result<Value> {
    let mut plain = asked()?;
    let text = plain
        .generate(Sampler::Argmax)
        .max_tokens(70)
        .ignore_eos()
        .collect_tokens()
        .await?;
    let expected = (
        plain.seq_len(),
        plain.buffer().to_vec(),
        next_token(&mut plain).await?,
    );

    let mut answers = Vec::new();
    for wrong_every in [0, 1, 3, 5] {
        let rolled_back = Arc::new(AtomicU32::new(0));
        let text_for_it = text.clone();
        let oracle = Oracle {
            text: text_for_it,
            at: 0,
            wrong_every,
            rolled_back: rolled_back.clone(),
        };
        let mut ctx = asked()?;
        let mut g = ctx
            .generate(Sampler::Argmax)
            .max_tokens(70)
            .ignore_eos()
            .speculator(oracle);
        let (mut tokens, mut steps) = (Vec::new(), 0);
        while let Some(step) = g.next()? {
            tokens.extend(step.execute().await?.tokens);
            steps += 1;
        }
        let after = (
            ctx.seq_len(),
            ctx.buffer().to_vec(),
            next_token(&mut ctx).await?,
        );
        answers.push(json!({
            "same_text": tokens == text,
            "same_context": after == expected,
            "steps": steps,
            "rolled_back": rolled_back.load(Ordering::Relaxed) > 0,
        }));
    }
    Ok(json!(answers))
}

struct Allow(Vec<u32>);

impl Constrain for Allow {
    fn step(&mut self, _accepted: &[u32]) -> &[u32] {
        &self.0
    }
}

/// The masks a..=e and c..=z together allow c, d and e.
pub async fn constraints_together() -> Result<Value> {
    let mut ctx = asked()?;
    let g = ctx
        .generate(Sampler::top_p(1.0, 1.0))
        .max_tokens(60)
        .seed(3);
    let g = g
        .constrain(Allow(vec![97, 5]))
        .constrain(Allow(vec![99, 24]))
        .constrain(Allow(vec![]));
    let mut tokens = g.collect_tokens().await?;
    tokens.sort_unstable();
    tokens.dedup();
    Ok(json!(tokens))
}

/// A context can be used after a generation in the same scope and has the last token.
pub async fn second_turn() -> Result<Value> {
    let mut ctx = asked()?;
    let mut g = ctx.generate(Sampler::Argmax).max_tokens(10);
    let mut tokens = Vec::new();
    while let Some(step) = g.next()? {
        tokens.extend(step.execute().await?.tokens);
    }
    ctx.seal().user("And then?").cue();

    let mut whole = asked()?;
    whole.append(&tokens).seal().user("And then?").cue();
    let same = next_token(&mut ctx).await? == next_token(&mut whole).await?;
    Ok(json!({ "same": same, "same_length": ctx.seq_len() == whole.seq_len() }))
}

pub async fn no_tokens() -> Result<Value> {
    let mut ctx = asked()?;
    let tokens = ctx
        .generate(Sampler::Argmax)
        .max_tokens(0)
        .collect_tokens()
        .await?;
    Ok(json!([tokens, ctx.seq_len()]))
}

pub async fn nothing_to_continue() -> Result<Value> {
    let mut ctx = Context::new(&model()?)?;
    let error = ctx
        .generate(Sampler::Argmax)
        .max_tokens(4)
        .collect_text()
        .await
        .unwrap_err();
    Ok(error.into())
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Answer {
    value: u32,
}

/// The value, or an error that names what is missing.
pub async fn json() -> Result<Value> {
    let mut ctx = asked()?;
    Ok(
        match ctx
            .generate(Sampler::Argmax)
            .max_tokens(200)
            .collect_json::<Answer>()
            .await
        {
            Ok(answer) => answer.value.into(),
            Err(error) => error.into(),
        },
    )
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Order {
    guest: bool,
    #[serde(flatten)]
    dish: Dish,
}

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "dish", rename_all = "lowercase")]
enum Dish {
    Pie { slices: i8 },
    Soup { hot: bool },
}

/// Documents of a type with a flattened enum have the keys of both.
pub async fn flattened_json() -> Result<Value> {
    for seed in 0..20 {
        let mut ctx = asked()?;
        let g = ctx
            .generate(Sampler::top_p(1.0, 1.0))
            .max_tokens(400)
            .seed(seed);
        if let Ok(order) = g.collect_json::<Order>().await {
            let order = json!(order);
            return Ok(json!([
                order["guest"].is_boolean(),
                order["dish"].is_string()
            ]));
        }
    }
    Err("no seed gave a document".into())
}

struct Idle;

impl Speculator for Idle {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        Default::default()
    }
    fn accept(&mut self, _accepted: &[u32]) {}
}

/// Errors of generators with two drafters: collected, and by steps.
pub async fn two_drafters() -> Result<Value> {
    let mut ctx = asked()?;
    let g = ctx
        .generate(Sampler::Argmax)
        .speculator(Idle)
        .system_speculation();
    let collected = g.collect_tokens().await.err();
    let mut g = ctx
        .generate(Sampler::Argmax)
        .system_speculation()
        .speculator(Idle);
    let stepped = g.next().err();
    let g = ctx
        .generate(Sampler::Argmax)
        .max_tokens(2)
        .speculator(Idle)
        .speculator(Idle);
    Ok(json!([collected, stepped, g.collect_tokens().await?.len()]))
}

/// What a tool whose schema cannot be enforced says, and what a model says that is given no tool.
pub async fn wrong_tools() -> Result<Value> {
    let model = model()?;
    let wrong = [r#"{"name": "add", "parameters": {"type": "object", "properties": 7}}"#];
    let tried = tools::try_native_matcher(&model, &wrong).err();
    let matcher = tools::native_matcher(&model, &wrong).ok_or("the error is lost")?;
    let mut ctx = asked()?;
    let g = ctx
        .generate(Sampler::Argmax)
        .constrain(inferlet::GrammarConstraint::new(matcher));
    let generated = g.collect_text().await.err();
    let grammar = tools::native_grammar(&model, &wrong).ok_or("the error is lost")?;
    let mut of_grammar = inferlet::inference::Matcher::new(&grammar, &model.tokenizer());
    let kept = of_grammar.accept_tokens(&[97]).err();
    let none = tools::try_native_matcher(&model, &[])?.is_none();
    Ok(json!([
        tried.is_some(),
        tried == generated,
        tried == kept && tried == tools::try_native_grammar(&model, &wrong).err(),
        none,
        tools::native_matcher(&model, &[]).is_none()
    ]))
}

struct Add;

impl Tool for Add {
    fn name(&self) -> &str {
        "add"
    }
    fn description(&self) -> &str {
        "Adds."
    }
    fn schema(&self) -> String {
        r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#.into()
    }
}

/// A tool that tells the schema of its arguments alone is described like one that tells all.
pub fn described_tool() -> Result<Value> {
    let mut short = Context::new(&model()?)?;
    short.equip(&[&Add])?;
    let whole = format!(
        r#"{{"name": "add", "description": "Adds.", "parameters": {}}}"#,
        Add.schema()
    );
    let mut long = Context::new(&model()?)?;
    long.equip_tools(&[whole])?;
    Ok(json!(
        !long.buffer().is_empty() && short.buffer() == long.buffer()
    ))
}

/// A schema that is chosen when the program runs, and text outside any turn.
pub async fn boxed_schema() -> Result<Value> {
    let schema: Box<dyn Schema> = Box::new(inferlet::Regex("(ab){2}"));
    let mut ctx = Context::new(&model()?)?;
    ctx.append_text("x");
    let g = ctx.generate(Sampler::Argmax).constrain_with(schema)?;
    Ok(json!([g.collect_text().await?, ctx.seq_len() > 0]))
}
