//! Attacks on the scheduler and the device: contexts, passes and chains.

use inferlet::pie::core::inference::{
    ForwardPass, Grammar as RawGrammar, Matcher as RawMatcher, Sampler as RawSampler,
};
use inferlet::pie::plus::{chains, constraints};
use inferlet::prelude::*;
use std::mem::forget;

/// Queues one pass of each of many contexts, again and again.
pub fn queue_passes(model: &Model, contexts: usize) -> Result<String> {
    let mut held = vec![];
    for i in 0..contexts as u32 {
        let ctx = Context::new(model)?;
        ctx.inner().reserve_working_pages(1)?;
        held.push((ctx, i % 100));
    }
    loop {
        let mut futures = vec![];
        for (ctx, token) in &held {
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&[*token], &[0]);
            futures.push(pass.execute()?);
        }
        for future in futures {
            future.pollable().block();
        }
        for (ctx, _) in &held {
            ctx.inner().truncate_working_page_tokens(1);
        }
    }
}

/// Queues one pass of each of very many contexts, up to the limit.
pub fn queue_all(model: &Model, contexts: usize) -> Result<String> {
    let mut held = vec![];
    for _ in 0..contexts {
        let ctx = Context::new(model)?;
        ctx.inner().reserve_working_pages(1)?;
        held.push(ctx);
    }
    loop {
        let mut futures = vec![];
        for ctx in &held {
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&[97], &[0]);
            match pass.execute() {
                Ok(future) => futures.push(future),
                Err(refused) if refused.contains("wait for the device") => break,
                Err(error) => return Err(error),
            }
        }
        for (future, ctx) in futures.into_iter().zip(&held) {
            future.pollable().block();
            ctx.inner().truncate_working_page_tokens(1);
        }
    }
}

/// A chain with many stop tokens.
pub fn many_stops(model: &Model, stops: usize) -> Result<String> {
    let ctx = Context::new(model)?;
    ctx.inner().reserve_working_pages(1)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    pass.input_tokens(&[97], &[0]);
    pass.sampler(&[0], &RawSampler::Multinomial((0.0, 1)));
    chains::run(&pass, 10, &vec![1; stops]).map(|_| "ran".into())
}

/// Feeds contexts of many pages, and suspends them. The engine keeps their tokens.
pub fn hoard_tokens(model: &Model, pages: u32) -> String {
    for _ in 0..20_000 {
        let attempt = || -> Result<()> {
            let ctx = Context::new(model)?;
            let count = pages * ctx.inner().tokens_per_page();
            ctx.inner().reserve_working_pages(pages)?;
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&vec![97; count as usize], &(0..count).collect::<Vec<u32>>());
            pass.execute()?.pollable().block();
            ctx.inner().suspend()?;
            forget(ctx);
            Ok(())
        };
        if let Err(refused) = attempt() {
            return refused;
        }
    }
    "no limit was met".into()
}

/// Feeds contexts with attention masks of many runs. Their histories keep the masks.
pub fn hoard_masks(model: &Model, runs: usize) -> String {
    let mut kept = 0;
    loop {
        let attempt = || -> Result<()> {
            let ctx = Context::new(model)?;
            let page = ctx.inner().tokens_per_page();
            ctx.inner().reserve_working_pages(4)?;
            let count = 4 * page;
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&vec![97; count as usize], &(0..count).collect::<Vec<u32>>());
            pass.attention_mask(&vec![vec![1; runs]; count as usize]);
            let future = pass.execute()?;
            future.pollable().block();
            forget(ctx);
            Ok(())
        };
        if let Err(refused) = attempt() {
            return refused;
        }
        kept += 1;
        if kept == 20_000 {
            return "no limit was met".into();
        }
    }
}

/// Requests the largest allowed number of samplers and probes at every row of one pass.
pub fn read_everything(model: &Model, rows: usize) -> Result<String> {
    let ctx = Context::new(model)?;
    let page = ctx.inner().tokens_per_page() as usize;
    let all: Vec<u32> = (0..rows as u32).rev().collect();
    for probe in [
        RawSampler::Entropy,
        RawSampler::TopP((1.0, 0.999)),
        RawSampler::Dist((1.0, 5)),
        RawSampler::Logprobs(vec![1, 2, 3]),
        RawSampler::Multinomial((1.0, 4)),
    ] {
        ctx.inner()
            .reserve_working_pages((rows / page + 1) as u32)?;
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        let first = ctx.inner().committed_page_count() * page as u32
            + ctx.inner().working_page_token_count();
        let positions: Vec<u32> = (first..first + rows as u32).collect();
        pass.input_tokens(&vec![97; rows], &positions);
        for _ in 0..4 {
            pass.sampler(&all, &probe);
        }
        let future = pass.execute()?;
        future.pollable().block();
        future.get();
    }
    Ok("read".into())
}

/// Computes for a long time with a single instruction each time that a pass has woken it.
pub async fn fill_after_pass(model: &Model, bytes: usize) -> Result<String> {
    let mut ctx = Context::new(model)?;
    let mut memory = vec![0u8; bytes];
    for i in 0..1_000 {
        ctx.append(&[97]);
        ctx.flush().await?;
        memory.fill(i as u8);
        std::hint::black_box(&memory);
    }
    Ok("filled".into())
}

/// Forks one context many times, and drops all forks at once.
pub async fn fork_storm(model: &Model, forks: usize) -> Result<String> {
    let mut ctx = Context::new(model)?;
    ctx.append(&vec![97; 2_000]);
    ctx.flush().await?;
    for _ in 0..3 {
        let mut held = vec![];
        for i in 0..forks {
            let fork = ctx.inner().fork()?;
            if i % 16 == 0 {
                fork.reserve_working_pages(1)?;
                let pass = ForwardPass::new(model.inner());
                pass.context(&fork);
                pass.input_tokens(&[97], &[2_000]);
                forget(pass.execute()?);
            }
            held.push(fork);
        }
        drop(held);
    }
    Ok("stormed".into())
}

/// Reads many rows under a logit mask whose runs are empty, except the last two.
pub fn empty_runs(model: &Model, runs: usize) -> Result<String> {
    const ROWS: u32 = 500;
    let mut mask = vec![0; runs / 2 * 2];
    mask.extend([0, 1 << 20]);
    let all: Vec<u32> = (0..ROWS).collect();
    loop {
        let ctx = Context::new(model)?;
        let page = ctx.inner().tokens_per_page();
        ctx.inner().reserve_working_pages(ROWS / page + 1)?;
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        pass.input_tokens(&vec![97; ROWS as usize], &all);
        pass.logit_mask(&mask);
        pass.sampler(&all, &RawSampler::TopK((0.0, 1)));
        let future = pass.execute()?;
        future.pollable().block();
        future.get();
    }
}

/// Feeds a context whose rows have the largest possible number of runs in their masks.
fn masked_context(model: &Model, rows: usize) -> Result<Context> {
    let ctx = Context::new(model)?;
    let page = ctx.inner().tokens_per_page() as usize;
    ctx.inner()
        .reserve_working_pages((rows / page + 2) as u32)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    pass.input_tokens(&vec![97; rows], &(0..rows as u32).collect::<Vec<u32>>());
    let masks: Vec<Vec<u32>> = (0..rows).map(|row| vec![1; row + 1]).collect();
    pass.attention_mask(&masks);
    pass.execute()?.pollable().block();
    Ok(ctx)
}

/// Makes the engine guess the next tokens of a context with large masks, again and again.
pub fn masked_drafts(model: &Model, rows: usize) -> Result<String> {
    let ctx = masked_context(model, rows)?;
    loop {
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        pass.input_tokens(&[97], &[rows as u32]);
        pass.sampler(&[0], &RawSampler::TopK((0.0, 1)));
        pass.output_speculative_tokens(true);
        let future = pass.execute()?;
        future.pollable().block();
        if future.get().is_none_or(|output| output.slots.is_empty()) {
            return Err("the pass failed".into());
        }
        ctx.inner().truncate_working_page_tokens(1);
    }
}

/// Opens a saved context with large masks many times.
pub fn hoard_opened_masks(model: &Model, rows: usize) -> String {
    let saved = masked_context(model, rows).and_then(|ctx| ctx.inner().save("masked"));
    if let Err(error) = saved {
        return error;
    }
    for _ in 0..3_000 {
        match Context::open(model, "masked") {
            Ok(opened) => forget(opened),
            Err(refused) => return refused,
        }
    }
    panic!("no limit was met")
}

/// Runs many chains whose grammar forces a long text, so that each of their tokens is expensive.
pub fn forced_chains(model: &Model, count: usize) -> Result<String> {
    let grammar = RawGrammar::from_ebnf(&format!("start: \"{}\"", "ab".repeat(10_000)))?;
    loop {
        let mut running = vec![];
        for _ in 0..count {
            let ctx = Context::new(model)?;
            ctx.inner().reserve_working_pages(16)?;
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&[97], &[0]);
            pass.sampler(&[0], &RawSampler::TopK((0.0, 1)));
            let matcher = RawMatcher::new(&grammar, model.tokenizer().inner());
            constraints::constrain(&pass, &matcher)?;
            running.push((chains::run(&pass, 20_000, &[])?, ctx));
        }
        for (chain, _) in &running {
            // A chain fails when its context has no pages left.
            while chain.take().is_ok_and(|progress| progress.ended.is_none()) {
                chain.pollable().block();
            }
        }
    }
}

/// Gives the pages of many contexts with large masks back, and wants them again, all at once.
pub fn masked_returns(model: &Model, rows: usize) -> Result<String> {
    let contexts: Vec<Context> = (0..12)
        .map(|_| masked_context(model, rows))
        .collect::<Result<_>>()?;
    loop {
        let mut futures = vec![];
        for ctx in &contexts {
            ctx.inner().suspend()?;
        }
        for ctx in &contexts {
            let pass = ForwardPass::new(model.inner());
            pass.context(ctx.inner());
            pass.input_tokens(&[97], &[rows as u32]);
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

/// Forks forks of a context while a pass of the first one waits, and drops all but the newest.
pub fn fork_and_drop(model: &Model, forks: usize) -> Result<String> {
    loop {
        let ctx = Context::new(model)?;
        ctx.inner().reserve_working_pages(64)?;
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        pass.input_tokens(&[97; 1_000], &(0..1_000).collect::<Vec<u32>>());
        let future = pass.execute()?;
        let mut newest = ctx.inner().fork()?;
        for _ in 0..forks {
            newest.suspend()?;
            newest = newest.fork()?;
        }
        drop(newest);
        future.pollable().block();
    }
}

/// Keeps chains whose matchers are gone, except that the chains would still feed them.
pub fn hoard_followers(model: &Model, chains: usize) -> String {
    let run = || -> Result<()> {
        let grammar = RawGrammar::from_regex("(.|\n)*")?;
        let matcher = RawMatcher::new(&grammar, model.tokenizer().inner());
        let ctx = Context::new(model)?;
        ctx.inner().reserve_working_pages(1)?;
        let pass = ForwardPass::new(model.inner());
        pass.context(ctx.inner());
        pass.input_tokens(&[97], &[0]);
        pass.sampler(&[0], &RawSampler::TopK((0.0, 1)));
        constraints::constrain(&pass, &matcher)?;
        forget(chains::run(&pass, 1, &[])?);
        Ok(())
    };
    for _ in 0..chains {
        match run() {
            Err(refused) if refused.contains("wait for the device") => {
                inferlet::wasi::clocks::monotonic_clock::subscribe_duration(1_000_000).block();
            }
            Err(refused) => return refused,
            Ok(()) => (),
        }
    }
    format!("{chains} chains")
}

/// Saves a long context again and again, under few names.
pub async fn many_saves(model: &Model, tokens: u32) -> Result<String> {
    let ctx = Context::new(model)?;
    let page = ctx.inner().tokens_per_page();
    ctx.inner().reserve_working_pages(tokens / page + 1)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    pass.input_tokens(
        &vec![97; tokens as usize],
        &(0..tokens).collect::<Vec<u32>>(),
    );
    pass.execute()?.pollable().block();
    for i in 0.. {
        ctx.inner().save(&format!("saved {}", i % 4))?;
    }
    Ok("saved".into())
}

/// Asks for the masks of an expensive grammar, which have to be computed each time.
pub fn slow_masks(model: &Model, width: usize) -> Result<String> {
    // Any of many texts that begin alike.
    let parts: Vec<String> = (0..width)
        .map(|i| format!("(a|b){{0,{}}}c{i}", i % 97 + 1))
        .collect();
    let grammar = RawGrammar::from_regex(&parts.join("|"))?;
    let matcher = RawMatcher::new(&grammar, model.tokenizer().inner());
    loop {
        for _ in 0..90 {
            matcher.next_token_logit_mask();
            if matcher.accept_tokens(&[97]).is_err() {
                break;
            }
        }
        matcher.reset();
    }
}
