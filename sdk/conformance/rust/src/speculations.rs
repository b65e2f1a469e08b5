//! Cases about speculation: the same tokens in fewer passes.

use std::sync::{Arc, Mutex};

use inferlet::prelude::*;
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
