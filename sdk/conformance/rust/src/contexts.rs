//! Cases about contexts, clones and snapshots.

use futures::future::try_join_all;
use inferlet::prelude::*;
use serde_json::{json, Value};

use crate::{model, Input, Step};

pub async fn context(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    ctx.append(&model.tokenizer().encode(&input.text));
    let (buffered, before) = (ctx.buffer().len(), ctx.seq_len());
    ctx.flush().await?;
    let after = ctx.seq_len();
    ctx.truncate(2)?;
    Ok(json!({
        "page_size": ctx.page_size(),
        "buffered": buffered,
        "before": before,
        "after": after,
        "truncated": ctx.seq_len(),
    }))
}

pub async fn flush_empty() -> Result<Value> {
    let mut ctx = Context::new(&model()?)?;
    ctx.flush().await?;
    Ok(json!({ "seq_len": ctx.seq_len() }))
}

pub async fn turns(input: &Input) -> Result<Value> {
    let mut ctx = Context::new(&model()?)?;
    let mut tokens = Vec::new();
    for step in &input.script {
        match step.r#do.as_str() {
            "system" => ctx.system(&step.text),
            "user" => ctx.user(&step.text),
            "assistant" => ctx.assistant(&step.text),
            "tools" => ctx.equip_tools(&step.tools)?,
            "answer" => ctx.answer_tool(&step.name, &step.text),
            "calls" => ctx.assistant_calls(&step.text, &calls(step)),
            "answer_call" => ctx.answer_call(&calls(step)[0], &step.text),
            "cue" => ctx.cue(),
            "seal" => ctx.seal(),
            "append" => ctx.append(&step.tokens),
            "flush" => {
                tokens.extend_from_slice(ctx.buffer());
                ctx.flush().await?;
                continue;
            }
            _ => {
                ctx = ctx.fork()?;
                continue;
            }
        };
    }
    tokens.extend_from_slice(ctx.buffer());
    Ok(json!(tokens))
}

fn calls(step: &Step) -> Vec<tools::Call> {
    let call = |call: &crate::Call| tools::Call {
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        id: call.id.clone(),
    };
    step.calls.iter().map(call).collect()
}

pub fn template_option(input: &Input) -> Result<Value> {
    let (model, plain) = (model()?, model()?);
    let cued = || -> Result<Vec<u32>> {
        let mut context = Context::new(&model)?;
        context.user(&input.text).cue();
        Ok(context.buffer().to_vec())
    };
    model.template_option(&input.name, input.value.clone())?;
    let tokens = cued()?;
    model.template_option(&input.name, Value::Null)?;
    let before = cued()?;
    Ok(json!({
        "added": plain.tokenizer().decode(&tokens[before.len()..])?,
        "refused": model.template_option("messages", true).is_err(),
        "unknown": model.template_option("no_such_variable", "text").is_ok(),
    }))
}

pub async fn cached_tokens(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let mut first = Context::new(&model)?;
    first.append(&tokens).flush().await?;
    let mut second = Context::new(&model)?;
    let fresh = second.cached_tokens();
    second.append(&tokens).flush().await?;
    Ok(json!({
        "fresh": fresh,
        "found": second.cached_tokens() > 0,
        "fork": second.fork()?.cached_tokens(),
    }))
}

pub async fn fork(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut parent = Context::new(&model)?;
    parent.user(&input.prompt);
    parent.flush().await?;
    let mut fork = parent.fork()?;

    let (a, b) = futures::try_join!(
        greedy(&mut parent, input.max_tokens),
        greedy(&mut fork, input.max_tokens)
    )?;
    fork.append(&[97]);
    fork.flush().await?;
    Ok(json!({ "same": a == b, "parent_len": parent.seq_len(), "fork_len": fork.seq_len() }))
}

pub async fn fork_parallel(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut parent = Context::new(&model)?;
    parent.user(&input.prompt);
    parent.flush().await?;

    let mut forks = (0..input.n)
        .map(|index| {
            let mut fork = parent.fork()?;
            fork.append(&[97 + index]);
            Ok(fork)
        })
        .collect::<Result<Vec<Context>>>()?;
    let runs = forks.iter_mut().map(|fork| greedy(fork, input.max_tokens));
    Ok(json!(try_join_all(runs).await?))
}

async fn greedy(ctx: &mut Context, max_tokens: usize) -> Result<Vec<u32>> {
    ctx.cue()
        .generate(Sampler::Argmax)
        .max_tokens(max_tokens)
        .collect_tokens()
        .await
}

/// `destroy` takes the context, so that no later use of it compiles.
pub async fn released(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    ctx.append(&model.tokenizer().encode(&input.text));
    ctx.flush().await?;
    ctx.destroy();
    Ok(json!([
        "fill", "flush", "fork", "save", "snapshot", "truncate", "bid", "generate", "forward"
    ]))
}

pub async fn forgotten(input: &Input) -> Result<Value> {
    let model = model()?;
    for _ in 0..input.n {
        Context::new(&model)?.flush().await?;
    }
    Ok(input.n.into())
}

pub async fn keep(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    ctx.append(&model.tokenizer().encode(&input.text));
    ctx.flush().await?;
    ctx.save(&input.name)?;
    Ok(ctx.seq_len().into())
}

pub fn open_named(input: &Input) -> Result<Value> {
    Ok(Context::open(&model()?, &input.name)?.seq_len().into())
}

pub async fn save_open(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    ctx.append(&model.tokenizer().encode(&input.text));
    ctx.flush().await?;

    ctx.save(&input.name)?;
    let mut copy = Context::open(&model, &input.name)?;
    let same_len = copy.seq_len() == ctx.seq_len();
    let same_token = next_token(&mut copy).await? == next_token(&mut ctx).await?;
    let missing = Context::open(&model, &format!("{}-missing", input.name)).is_err();
    let taken = Context::take(&model, &input.name)?;
    let taken_missing =
        taken.seq_len() == ctx.seq_len() && Context::open(&model, &input.name).is_err();
    let snapshot = ctx.snapshot()?;
    Context::delete(&model, &snapshot)?;
    Ok(json!({
        "same_len": same_len,
        "same_token": same_token,
        "missing": missing,
        "taken_missing": taken_missing,
        "named": !snapshot.is_empty(),
    }))
}

/// The token that greedily follows token 97, which the context then forgets.
async fn next_token(ctx: &mut Context) -> Result<Option<u32>> {
    let mut forward = ctx.forward();
    let position = forward.start_position();
    let handle = forward
        .input_at(&[97], &[position])
        .sample(&[0], Sampler::Argmax);
    Ok(forward.execute().await?.token(handle))
}

pub async fn rollback(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let mut ctx = Context::new(&model)?;
    ctx.append(&tokens).flush().await?;
    let mut fork = ctx.fork()?;
    let before = next_token(&mut ctx).await?;
    ctx.truncate(input.n)?;
    let length = ctx.seq_len();
    let again = &tokens[tokens.len() - input.n as usize..];
    ctx.append(again).flush().await?;
    let whole = |ctx: &Context| ctx.seq_len() as usize == tokens.len();
    Ok(json!({
        "length": length,
        "same": whole(&ctx) && next_token(&mut ctx).await? == before,
        "fork_same": whole(&fork) && next_token(&mut fork).await? == before,
    }))
}

pub async fn save_buffered(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let (mut ctx, mut whole) = (Context::new(&model)?, Context::new(&model)?);
    whole.append(&tokens).flush().await?;
    ctx.append(&tokens).save(&input.name)?;
    let mut saved = Context::take(&model, &input.name)?;
    let same = saved.seq_len() == whole.seq_len() && saved.buffer().is_empty();
    Ok(json!({
        "same": same && next_token(&mut saved).await? == next_token(&mut whole).await?,
        "untouched": ctx.seq_len() == 0 && ctx.buffer() == tokens,
    }))
}
