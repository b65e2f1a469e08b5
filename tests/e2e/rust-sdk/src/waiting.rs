//! The executor: timers, cancellation, many things at once.

use std::cell::Cell;
use std::time::{Duration, Instant};

use futures::future::{select, Either};
use futures::stream::{FuturesUnordered, StreamExt};
use inferlet::prelude::*;
use inferlet::time::{sleep, timeout as within};
use inferlet::yield_now;
use serde_json::{json, Value};

use crate::asked;

const SHORT: Duration = Duration::from_millis(5);

pub async fn timeout() -> Result<Value> {
    let late = within(SHORT, messaging::pull("never").wait_async()).await;
    let text: String = late.unwrap_err().into();
    let in_time = within(Duration::from_secs(60), async { 7 }).await?;
    Ok(json!([text, in_time]))
}

/// A cancelled wait does not take the message that the next wait should get.
pub async fn cancelled_pull() -> Result<Value> {
    let given_up = within(SHORT, messaging::pull("cancelled").wait_async())
        .await
        .is_err();
    messaging::push("cancelled", "kept");
    let message = within(
        Duration::from_secs(5),
        messaging::pull("cancelled").wait_async(),
    )
    .await?;
    Ok(json!([given_up, message]))
}

/// Dropping a generation during a step leaves a usable context.
pub async fn cancelled_step() -> Result<Value> {
    let mut ctx = asked()?;
    {
        let run = ctx
            .generate(Sampler::Argmax)
            .max_tokens(1_000_000)
            .ignore_eos()
            .collect_tokens();
        if let Either::Left(_) = select(Box::pin(run), Box::pin(sleep(SHORT))).await {
            return Err("a million tokens in no time".into());
        }
    }
    let length = ctx.seq_len();
    ctx.append(&[97]);
    let tokens = ctx
        .generate(Sampler::Argmax)
        .max_tokens(5)
        .ignore_eos()
        .collect_tokens()
        .await?;
    Ok(json!({ "tokens": tokens.len(), "grew": ctx.seq_len() > length }))
}

/// Fifty waits run at once. None ends early, and together they take far less than one after another.
pub async fn many_waits() -> Result<Value> {
    let begun = Instant::now();
    let mut waits = FuturesUnordered::new();
    let lengths = (0..50u64)
        .rev()
        .map(|index| Duration::from_millis(40 * index));
    let one_after_the_other: Duration = lengths.clone().sum();
    for length in lengths {
        waits.push(async move {
            sleep(length).await;
            begun.elapsed() >= length
        });
    }
    let (mut ended, mut in_time) = (0, true);
    while let Some(not_early) = waits.next().await {
        ended += 1;
        in_time &= not_early;
    }
    let at_once = begun.elapsed() < one_after_the_other / 2;
    Ok(json!({ "count": ended, "none_early": in_time, "at_once": at_once }))
}

/// A task that is always ready does not delay a timer.
pub async fn busy_neighbour() -> Result<Value> {
    let over = Cell::new(false);
    let mut turns = 0u32;
    futures::join!(
        async {
            sleep(SHORT).await;
            over.set(true);
        },
        async {
            while !over.get() {
                turns += 1;
                yield_now().await;
            }
        }
    );
    Ok(json!(turns > 1))
}

pub fn launch_unknown() -> Result<Value> {
    Ok(runtime::launch("no-such-inferlet", "{}").err().into())
}

pub async fn stuck() -> Result<Value> {
    std::future::pending::<()>().await;
    Ok(Value::Null)
}

/// Tasks of wstd wait for the engine while `main` waits for nothing but them.
pub async fn spawned_tasks() -> Result<Value> {
    use wstd::runtime::spawn;

    let timer = spawn(async {
        sleep(SHORT).await;
        "slept"
    });
    let queue = spawn(messaging::pull("spawned").wait_async());
    let sender = spawn(async {
        sleep(SHORT).await;
        messaging::push("spawned", "one");
    });
    let steps = spawn(async {
        let mut ctx = asked()?;
        let mut g = ctx.generate(Sampler::Argmax).max_tokens(3).ignore_eos();
        let mut tokens = Vec::new();
        while let Some(step) = g.next()? {
            tokens.extend(step.execute().await?.tokens);
        }
        Ok::<usize, String>(tokens.len())
    });
    let chain = spawn(async {
        let mut ctx = asked()?;
        // A loop of this SDK inside a task of wstd.
        inferlet::block_on(ctx.flush())?;
        let g = ctx.generate(Sampler::Argmax).max_tokens(70).ignore_eos();
        Ok::<usize, String>(g.collect_tokens().await?.len())
    });
    let waits = json!([timer.await, queue.await]);
    sender.await;
    let counts = json!([steps.await?, chain.await?]);
    // A future may begin to wait in `main` and end in a task, and the other way round.
    let mut moved = Box::pin(sleep(SHORT));
    let begun = futures::poll!(&mut moved).is_pending();
    spawn(moved).await;
    let back = spawn(async {
        let mut moved = Box::pin(sleep(SHORT));
        (futures::poll!(&mut moved).is_pending(), moved)
    });
    let (begun_there, moved) = back.await;
    moved.await;
    Ok(json!([waits, counts, begun && begun_there]))
}

/// A task that runs on after `main`.
pub fn outlives_main() -> Result<Value> {
    let late = async {
        sleep(SHORT).await;
        eprintln!(
            "{}",
            asked()?
                .generate(Sampler::Argmax)
                .max_tokens(3)
                .collect_tokens()
                .await?
                .len()
        );
        Ok::<(), String>(())
    };
    wstd::runtime::spawn(async { late.await.expect("the engine runs on") }).detach();
    Ok(Value::Null)
}

/// A timer and a task of wstd 0.6 beside a generation. The SDK's own default is wstd 0.5.
pub async fn other_reactor() -> Result<Value> {
    use wstd::{runtime::spawn, task::sleep, time::Duration};

    let spawned = spawn(async {
        sleep(Duration::from_millis(2)).await;
        "woken"
    });
    let mut ctx = asked()?;
    let tokens = ctx.generate(Sampler::Argmax).max_tokens(3).collect_tokens();
    let (tokens, _) = futures::join!(tokens, sleep(Duration::from_millis(5)));
    Ok(json!({ "tokens": tokens?.len(), "spawned": spawned.await }))
}
