//! Cases about single passes.

use inferlet::prelude::*;
use inferlet::sample::{Distribution, Embedding, Entropy, Logits, Logprob, Logprobs};
use serde_json::{json, Value};

use crate::{allow_only, argmax, model, Input};

pub async fn forward(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let last = tokens.len() as u32 - 1;

    let mut ctx = Context::new(&model)?;
    let mut forward = ctx.forward();
    forward.input(&tokens);
    let sampled = forward.sample(&[last], Sampler::Argmax);
    let logits = forward.probe(last, Logits);
    let distribution = forward.probe(
        last,
        Distribution {
            temperature: 1.0,
            k: 5,
        },
    );
    let logprob = forward.probe(last, Logprob(97));
    let logprobs = forward.probe(last, Logprobs(vec![97, 98]));
    let entropy = forward.probe(last, Entropy);
    let out = forward.execute().await?;

    let logits = out.logits(logits).ok_or("no logits")?;
    let (ids, probabilities) = out.distribution(distribution).ok_or("no distribution")?;
    Ok(json!({
        "token": out.token(sampled),
        "argmax": argmax(logits),
        "vocab": logits.len() / 4,
        "ids": ids,
        "probs": probabilities,
        "logprob": out.logprobs(logprob).ok_or("no log-probability")?[0],
        "logprobs": out.logprobs(logprobs),
        "entropy": out.entropy(entropy),
        "mismatch": mismatch(&mut ctx, sampled).await?,
    }))
}

/// Rust's types keep a probe's handle out of `token()`. What is left is the handle of one pass on the output of
/// another, where a probe stands in the sampler's place.
async fn mismatch(ctx: &mut Context, sampled: SampleHandle) -> Result<bool> {
    let mut forward = ctx.forward();
    forward.input(&[97]);
    forward.probe(0, Entropy);
    Ok(forward.execute().await?.token(sampled).is_none())
}

pub async fn embedding(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let last = tokens.len() as u32 - 1;
    let mut ctx = Context::new(&model)?;
    let mut forward = ctx.forward();
    forward.input(&tokens);
    let sampled = forward.sample(&[last], Sampler::Embedding);
    let first = forward.probe(0, Embedding);
    let probed = forward.probe(last, Embedding);
    let out = forward.execute().await?;
    let bytes = out.embedding(sampled).ok_or("no embedding")?;
    let number = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    let numbers: Vec<f32> = bytes.chunks_exact(4).map(number).collect();

    let mut steps = 0;
    let mut ctx = Context::new(&model)?;
    ctx.user(&input.text).cue();
    let mut g = ctx.generate(Sampler::Argmax).max_tokens(3);
    let handle = g.probe_each_step(0, Embedding);
    while let Some(step) = g.next()? {
        let out = step.execute().await?;
        steps += usize::from(
            out.embedding(handle)
                .is_some_and(|e| e.len() == bytes.len()),
        );
    }
    let refused = ctx.generate(Sampler::Embedding).next().is_err();
    Ok(json!({
        "size": numbers.len(),
        "values": numbers[..4],
        "same": out.embedding(sampled) == out.embedding(probed),
        "differs": out.embedding(first) != out.embedding(probed),
        "no_token": out.token(sampled).is_none(),
        "steps": steps,
        "refused": refused,
    }))
}

pub async fn forward_rows(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    let mut forward = ctx.forward();
    forward.input(&model.tokenizer().encode(&input.text));
    let handle = forward.sample(&[0, 1, 2], Sampler::Argmax);
    Ok(json!(forward.execute().await?.tokens_at(handle)))
}

pub async fn forward_empty() -> Result<Value> {
    let mut ctx = Context::new(&model()?)?;
    ctx.forward().execute().await?;
    Ok(Value::Null)
}

pub async fn forward_mask(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let mut ctx = Context::new(&model)?;
    let mut forward = ctx.forward();
    forward.input(&tokens).mask(&allow_only(&[input.token]));
    let handle = forward.sample(&[tokens.len() as u32 - 1], Sampler::Argmax);
    Ok(json!(forward.execute().await?.token(handle)))
}

pub async fn attention_mask(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let last = tokens.len() as u32 - 1;
    let all_true: Vec<Vec<u32>> = (0..=last).map(|row| vec![0, row + 1]).collect();
    let mut only_itself = all_true.clone();
    only_itself[last as usize] = vec![last, 1];

    let plain = last_row(&model, &tokens, &[]).await?;
    let hidden = last_row(&model, &tokens, &only_itself).await?;
    let visible = last_row(&model, &tokens, &all_true).await?;
    Ok(json!({ "hidden_differs": hidden != plain, "all_true_same": visible == plain }))
}

/// The logits and the entropy of the last row under a mask.
async fn last_row(model: &Model, tokens: &[u32], mask: &[Vec<u32>]) -> Result<(Vec<u8>, f32)> {
    let mut ctx = Context::new(model)?;
    let mut forward = ctx.forward();
    forward.input(tokens).attention_mask(mask);
    let logits = forward.probe(tokens.len() as u32 - 1, Logits);
    let entropy = forward.probe(tokens.len() as u32 - 1, Entropy);
    let out = forward.execute().await?;
    let bytes = out.logits(logits).ok_or("no logits")?.to_vec();
    Ok((bytes, out.entropy(entropy).ok_or("no entropy")?))
}

pub async fn input_at(input: &Input) -> Result<Value> {
    let model = model()?;
    let mut ctx = Context::new(&model)?;
    ctx.append(&model.tokenizer().encode(&input.text));
    ctx.flush().await?;
    let before = ctx.seq_len();
    let mut forward = ctx.forward();
    forward
        .input_at(&[97], &[before])
        .sample(&[0], Sampler::Argmax);
    forward.execute().await?;
    Ok(json!({ "advanced": ctx.seq_len() - before }))
}

pub async fn draws(input: &Input) -> Result<Value> {
    let model = model()?;
    let tokens = model.tokenizer().encode(&input.text);
    let mut ctx = Context::new(&model)?;
    let mut forward = ctx.forward();
    forward.input(&tokens).seed(input.seed);
    let handle = forward.sample(&[tokens.len() as u32 - 1], Sampler::multinomial(1.0, 4));
    let out = forward.execute().await?;
    let drawn = out.tokens_at(handle);
    Ok(json!({ "count": drawn.len(), "first": out.token(handle) == drawn.first().copied() }))
}
