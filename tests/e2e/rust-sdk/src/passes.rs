//! Passes and pages.

use inferlet::inference::ForwardPass;
use inferlet::prelude::*;
use serde_json::{json, Value};

use crate::{asked, model};

/// A pass that is refused leaves the context and its buffer unchanged.
pub async fn failed_pass() -> Result<Value> {
    let mut ctx = asked()?;
    ctx.flush().await?;
    let before = ctx.seq_len();
    ctx.append(&[97, u32::MAX]);
    let flushed = ctx.flush().await.unwrap_err();
    let buffered = ctx.buffer().len();
    let generated = ctx
        .generate(Sampler::Argmax)
        .max_tokens(3)
        .collect_tokens()
        .await
        .is_err();
    let mut forward = ctx.forward();
    forward.input(&[97]).sample(&[5], Sampler::Argmax);
    let row = forward.execute().await.unwrap_err();
    Ok(json!({
        "flushed": flushed,
        "row": row,
        "generated": generated,
        "buffered": buffered,
        "still_buffered": ctx.buffer().len(),
        "same_length": ctx.seq_len() == before,
    }))
}

pub async fn scored_tokens_last() -> Result<Value> {
    let mut ctx = asked()?;
    let mut forward = ctx.forward();
    forward.input_at(&[97], &[0]).input(&[98]);
    let order = forward.execute().await.unwrap_err();
    let mut forward = ctx.forward();
    forward.input_at(&[97, 98], &[0]);
    let positions = forward.execute().await.unwrap_err();
    Ok(json!({ "order": order, "positions": positions, "length": ctx.seq_len() }))
}

/// Full pages are committed. The tokens after them can be rolled back.
pub async fn pages() -> Result<Value> {
    let mut ctx = Context::new(&model()?)?;
    let page = ctx.page_size();
    ctx.append(&vec![97; 2 * page as usize + 3]);
    ctx.flush().await?;
    let raw = ctx.inner();
    let counts = [raw.committed_page_count(), raw.working_page_token_count()];
    let too_many = ctx.truncate(1000).unwrap_err();
    ctx.truncate(3)?;
    let length = ctx.seq_len();
    ctx.inner().reserve_working_pages(2)?;
    let reserved = ctx.inner().working_page_count();
    ctx.inner().release_working_pages(reserved);
    Ok(json!({
        "counts": counts,
        "too_many": too_many,
        "length_in_pages": length / page,
        "released": ctx.inner().working_page_count(),
    }))
}

/// Runs a pass of the engine directly, without the SDK's bookkeeping.
pub async fn raw_pass() -> Result<Value> {
    let model = model()?;
    let ctx = Context::new(&model)?;
    ctx.inner().reserve_working_pages(2)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    pass.input_tokens(&[97, 98], &[0, 1]);
    let output = pass.execute_async().await?;
    let again = pass.execute_async().await.is_err();
    Ok(json!({ "slots": output.slots.len(), "length": ctx.seq_len(), "again_fails": again }))
}

pub async fn bids() -> Result<Value> {
    let mut ctx = asked()?;
    ctx.set_bid(2.5);
    ctx.generate(Sampler::Argmax)
        .max_tokens(20)
        .horizon(20)
        .collect_tokens()
        .await?;
    {
        let _idle = ctx.idle();
    }
    let length = ctx.seq_len();
    let suspended = ctx.suspend();
    ctx.flush().await?;
    Ok(json!({ "suspended": suspended.is_ok(), "grew": ctx.seq_len() - length }))
}
