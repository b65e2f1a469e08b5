//! Attacks that repeat a small operation as often as they can.

use inferlet::pie::core::inference::{ForwardPass, Sampler as RawSampler};
use inferlet::pie::core::{messaging, runtime as raw_runtime, session};
use inferlet::pie::plus::chains;
use inferlet::prelude::*;
use inferlet::wasi::clocks::monotonic_clock;
use inferlet::wasi::io::poll::poll;
use std::mem::forget;

/// Runs an attack of size `n`. Returns None for an unknown mode.
pub fn run(mode: &str, n: usize, model: &Model) -> Option<Result<String>> {
    Some(match mode {
        "broadcast_storm" => broadcast_storm(n),
        "ping_pong" => ping_pong(n),
        "pong" => pong(n),
        "timer_storm" => timer_storm(n),
        "trap_storm" => trap_storm(n),
        "trap_big" => panic!("{}", "x".repeat(n)),
        "churn_memory" => churn_memory(n),
        "touch_memory" => Ok(vec![1u8; n].len().to_string()),
        "fork_chain" => fork_chain(model, n as u32),
        "suspend_storm" => suspend_storm(model, n as u32),
        "hold_chains" => hold_chains(model, n),
        "print_lines" => loop {
            println!();
        },
        "send_small" => loop {
            session::send("x");
        },
        "send_files" => loop {
            session::send_file(&vec![7; n]);
        },
        "wait_alike" => wait_alike(n),
        "receive_all" => loop {
            forget(session::receive());
        },
        _ => return None,
    })
}

/// Broadcasts long messages to many subscriptions that no inferlet reads.
fn broadcast_storm(subscriptions: usize) -> Result<String> {
    for _ in 0..subscriptions {
        forget(messaging::subscribe("storm"));
    }
    let message = "x".repeat(64 << 10);
    loop {
        messaging::broadcast("storm", &message);
    }
}

/// Sends a message to and fro between pairs of inferlets, as fast as possible.
fn ping_pong(pairs: usize) -> Result<String> {
    for i in 0..2 * pairs {
        forget(raw_runtime::launch(
            "hostile",
            &format!(r#"{{"mode": "pong", "n": {i}}}"#),
        )?);
    }
    for pair in 0..pairs {
        messaging::push(&format!("pair {pair} 0"), "ball");
    }
    monotonic_clock::subscribe_duration(3_600_000_000_000).block();
    Ok("played".into())
}

fn pong(i: usize) -> Result<String> {
    let (pair, side) = (i / 2, i % 2);
    loop {
        let ball = messaging::pull(&format!("pair {pair} {side}"));
        ball.pollable().block();
        ball.get();
        messaging::push(&format!("pair {pair} {}", 1 - side), "ball");
    }
}

/// Waits for many timers that end at once.
fn timer_storm(n: usize) -> Result<String> {
    loop {
        let timers: Vec<_> = (0..n)
            .map(|i| monotonic_clock::subscribe_duration(1_000 + i as u64))
            .collect();
        for part in timers.chunks(1_000) {
            poll(&part.iter().collect::<Vec<_>>());
        }
    }
}

/// Launches inferlets that trap with a long message.
fn trap_storm(bytes: usize) -> Result<String> {
    loop {
        let child = raw_runtime::launch(
            "hostile",
            &format!(r#"{{"mode": "trap_big", "n": {bytes}}}"#),
        )?;
        child.pollable().block();
    }
}

/// Launches inferlets that fill their memory and end.
fn churn_memory(bytes: usize) -> Result<String> {
    let input = format!(r#"{{"mode": "touch_memory", "n": {bytes}}}"#);
    loop {
        let child = raw_runtime::launch("hostile", &input)?;
        child.pollable().block();
    }
}

fn feed(model: &Model, ctx: &Context, count: u32) -> Result<()> {
    let position = ctx.seq_len();
    let page = ctx.inner().tokens_per_page();
    ctx.inner().reserve_working_pages(count / page + 1)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    let positions: Vec<u32> = (position..position + count).collect();
    pass.input_tokens(&vec![97; count as usize], &positions);
    pass.execute()?.pollable().block();
    Ok(())
}

/// Forks each fork after it has grown by a page. Drops or keeps the fork's parent.
fn fork_chain(model: &Model, pages: u32) -> Result<String> {
    loop {
        let mut ctx = Context::new(model)?;
        let page = ctx.inner().tokens_per_page();
        let mut kept = vec![];
        for i in 0..pages {
            let pass = ForwardPass::new(model.inner());
            ctx.inner().reserve_working_pages(1)?;
            pass.context(ctx.inner());
            let positions: Vec<u32> = (i * page..(i + 1) * page).collect();
            pass.input_tokens(&vec![97 + i % 20; page as usize], &positions);
            pass.execute()?.pollable().block();
            let fork = ctx.fork()?;
            if i % 3 == 0 {
                kept.push(std::mem::replace(&mut ctx, fork));
            } else {
                ctx = fork;
            }
        }
    }
}

/// Suspends long contexts, and then uses them again for one token.
fn suspend_storm(model: &Model, tokens: u32) -> Result<String> {
    let contexts: Vec<Context> = (0..16)
        .map(|_| Context::new(model))
        .collect::<Result<_>>()?;
    for ctx in &contexts {
        feed(model, ctx, tokens)?;
    }
    loop {
        for ctx in &contexts {
            ctx.inner().suspend()?;
        }
        let mut futures = vec![];
        for ctx in &contexts {
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&[98], &[tokens]);
            futures.push(pass.execute()?);
        }
        for future in futures {
            future.pollable().block();
        }
        for ctx in &contexts {
            ctx.inner().truncate_working_page_tokens(1);
        }
    }
}

/// Runs many chains whose tokens the guest never takes, again and again.
fn hold_chains(model: &Model, count: usize) -> Result<String> {
    loop {
        let mut running = vec![];
        for i in 0..count {
            let ctx = Context::new(model)?;
            ctx.inner().reserve_working_pages(1)?;
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&[i as u32 % 100], &[0]);
            pass.sampler(&[0], &RawSampler::TopK((0.0, 1)));
            match chains::run(&pass, u32::MAX, &[]) {
                Ok(chain) => running.push((chain, ctx)),
                Err(_) => break,
            }
        }
        for (chain, _) in &running {
            chain.pollable().block();
        }
        monotonic_clock::subscribe_duration(200_000_000).block();
    }
}

/// Waits for the same message with many requests, and sends it.
fn wait_alike(n: usize) -> Result<String> {
    loop {
        let waiting: Vec<_> = (0..n).map(|_| messaging::pull("alike")).collect();
        for _ in 0..n {
            messaging::push("alike", "x");
        }
        for one in &waiting {
            one.pollable().block();
            one.get();
        }
    }
}
