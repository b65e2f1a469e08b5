//! Cases about speculation: the same tokens in fewer passes.

use std::sync::{Arc, Mutex};

use inferlet::prelude::*;
use inferlet::sample::{Entropy, Logprob};
use serde_json::{json, Value};

use crate::constraints::{asked, constraint, drawn, state_of};
use crate::Input;

/// Drafts what is known to come, with a mistake at every third place, and notes its calls.
struct Drafter {
    truth: Vec<u32>,
    n: usize,
    at: usize,
    calls: Arc<Mutex<Vec<Value>>>,
}

impl Drafter {
    fn note(&self, call: Value) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Speculator for Drafter {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        let ahead = self.truth.iter().enumerate().skip(self.at).take(self.n);
        let wrong = ahead.map(|(i, token)| if i % 3 != 2 { *token } else { token ^ 1 });
        let wrong: Vec<u32> = wrong.collect();
        self.note(json!(["draft", wrong.len()]));
        (wrong, Vec::new())
    }
    fn accept(&mut self, accepted: &[u32]) {
        self.at += accepted.len();
        self.note(json!(["accept", accepted.len()]));
    }
    fn rollback(&mut self, n: u32) {
        self.note(json!(["rollback", n]));
    }
    fn reset(&mut self) {
        self.note(json!(["reset"]));
    }
}

/// Drafts what is known to come, at positions that are `shift` too high, `missing` too few.
struct Placed {
    truth: Vec<u32>,
    start: u32,
    n: usize,
    shift: Option<u32>,
    missing: usize,
    at: usize,
    drafts: Arc<Mutex<usize>>,
}

impl Speculator for Placed {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        *self.drafts.lock().unwrap() += 1;
        let ahead: Vec<u32> = self
            .truth
            .iter()
            .skip(self.at)
            .take(self.n)
            .copied()
            .collect();
        let Some(shift) = self.shift else {
            return (ahead, Vec::new());
        };
        let first = self.start + self.at as u32 + shift;
        let count = ahead.len().saturating_sub(self.missing);
        (ahead, (first..).take(count).collect())
    }
    fn accept(&mut self, accepted: &[u32]) {
        self.at += accepted.len();
    }
}

/// The tokens, and how many times the drafter was asked.
async fn placed(
    input: &Input,
    truth: &[u32],
    shift: Option<u32>,
    missing: usize,
) -> Result<(Vec<u32>, usize)> {
    let mut ctx = Context::new(&crate::model()?)?;
    ctx.user(&input.prompt).cue();
    let drafts = Arc::new(Mutex::new(0));
    let speculator = Placed {
        truth: truth.to_vec(),
        start: ctx.buffer().len() as u32,
        n: input.n as usize,
        shift,
        missing,
        at: 0,
        drafts: drafts.clone(),
    };
    let generator = ctx.generate(Sampler::Argmax).max_tokens(input.max_tokens);
    let tokens = generator.speculator(speculator).collect_tokens().await?;
    let drafts = *drafts.lock().unwrap();
    Ok((tokens, drafts))
}

pub async fn draft_positions(input: &Input) -> Result<Value> {
    let mut ctx = Context::new(&crate::model()?)?;
    ctx.user(&input.prompt).cue();
    let generator = ctx.generate(Sampler::Argmax).max_tokens(input.max_tokens);
    let truth = generator.collect_tokens().await?;
    let none = placed(input, &truth, None, 0).await?;
    let right = placed(input, &truth, Some(0), 0).await?;
    let wrong = placed(input, &truth, Some(7), 0).await?;
    Ok(json!({
        "same": none.0 == truth && right.0 == truth,
        "same_calls": none.1 == right.1,
        "wrong_differs": wrong != right,
        "wrong": wrong.0,
        "mismatch": placed(input, &truth, Some(0), 1).await.is_err(),
    }))
}

fn constrained<'ctx>(ctx: &'ctx mut Context, input: &Input) -> Result<Generator<'ctx>> {
    let generator = drawn(ctx, input);
    Ok(match input.kind.is_empty() {
        true => generator,
        false => generator.constrain(constraint(input)?),
    })
}

pub async fn speculate(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let truth = constrained(&mut ctx, input)?.collect_tokens().await?;
    let state = state_of(&ctx, &truth);

    let calls = Arc::new(Mutex::new(Vec::new()));
    let drafter = Drafter {
        truth: truth.clone(),
        n: input.n as usize,
        at: 0,
        calls: calls.clone(),
    };
    let mut ctx = asked(input)?;
    let drafted = constrained(&mut ctx, input)?
        .speculator(drafter)
        .collect_tokens()
        .await?;
    let calls = calls.lock().unwrap().clone();
    Ok(json!({
        "same": drafted == truth,
        "same_state": state_of(&ctx, &drafted) == state,
        "tokens": truth,
        "calls": calls,
    }))
}

/// The tokens, what the probes read at each of them, and the number of steps.
type Probed = (Vec<u32>, Vec<(f32, f32)>, usize);

async fn probed(mut generator: Generator<'_>) -> Result<Probed> {
    let each = generator.probe_each_step(0, Entropy);
    let (mut tokens, mut probes, mut steps) = (Vec::new(), Vec::new(), 0);
    while let Some(mut step) = generator.next()? {
        let own = step.probe(0, Logprob(97));
        let out = step.execute().await?;
        steps += 1;
        for (i, token) in out.tokens.iter().enumerate() {
            tokens.push(*token);
            let entropy = out.entropy(each.at(i)).ok_or("no entropy")?;
            let logprobs = out.logprobs(own.at(i)).ok_or("no log-probability")?;
            probes.push((entropy, logprobs[0]));
        }
    }
    Ok((tokens, probes, steps))
}

pub async fn speculate_probed(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let (truth, probes, _) = probed(drawn(&mut ctx, input)).await?;
    let drafter = Drafter {
        truth: truth.clone(),
        n: input.n as usize,
        at: 0,
        calls: Arc::default(),
    };
    let mut ctx = asked(input)?;
    let (drafted, read, steps) = probed(drawn(&mut ctx, input).speculator(drafter)).await?;
    Ok(json!({
        "same": drafted == truth,
        "same_probes": read == probes,
        "tokens": truth,
        "probes": probes,
        "steps": steps,
    }))
}

pub async fn system_speculation(input: &Input) -> Result<Value> {
    let mut ctx = asked(input)?;
    let truth = drawn(&mut ctx, input).collect_tokens().await?;
    let state = state_of(&ctx, &truth);

    let mut ctx = asked(input)?;
    let chained = drawn(&mut ctx, input)
        .system_speculation()
        .collect_tokens()
        .await?;
    let same = chained == truth && state_of(&ctx, &chained) == state;

    let mut ctx = asked(input)?;
    let mut generator = drawn(&mut ctx, input).system_speculation();
    let mut stepped = Vec::new();
    while let Some(step) = generator.next()? {
        stepped.extend(step.execute().await?.tokens);
    }
    drop(generator);
    let same_stepped = stepped == truth && state_of(&ctx, &stepped) == state;
    Ok(json!({ "same": same, "same_stepped": same_stepped }))
}
