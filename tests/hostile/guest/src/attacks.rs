//! Attacks on others: each takes as much as it gets of something that all users share.
//! `availability.cc` runs them beside a neighbour of another user.

use crate::wasi_calls;
use inferlet::pie::core::inference::{
    ForwardPass, Grammar as RawGrammar, Matcher as RawMatcher, Sampler as RawSampler,
};
use inferlet::pie::core::{messaging, runtime as raw_runtime};
use inferlet::pie::instruct::chat;
use inferlet::pie::plus::{chains, constraints};
use inferlet::prelude::*;
use inferlet::wasi::clocks::monotonic_clock;
use inferlet::wasi::io::poll::poll;
use std::mem::forget;

/// Runs an attack. Returns none for a mode that is no attack. `n` is its size.
pub async fn run(mode: &str, n: usize, model: &Model) -> Option<Result<String>> {
    Some(match mode {
        "hold_children" => hold(launch_until_refused(r#"{"mode": "sleep"}"#)),
        "leave_children" => {
            for _ in 0..n {
                forget(raw_runtime::launch("hostile", r#"{"mode": "sleep"}"#).unwrap());
            }
            Ok("left".into())
        }
        "fork_bomb" => {
            let again = format!(r#"{{"mode": "fork_bomb", "n": {n}}}"#);
            let refused = launch_until_refused(&again);
            if refused.contains("deep") {
                return Some(Ok(refused));
            }
            hold(refused)
        }
        "hold_contexts" => loop {
            match Context::new(model) {
                Ok(context) => forget(context),
                Err(refused) => break hold(refused),
            }
        },
        "topics" => {
            for i in 0.. {
                messaging::push(&format!("topic {i}"), "");
            }
            Ok("pushed".into())
        }
        "talk" => {
            for i in 0..n {
                messaging::push("own", &i.to_string());
                let answer = messaging::pull("own");
                answer.pollable().block();
                assert_eq!(answer.get(), Some(i.to_string()));
            }
            Ok("talked".into())
        }
        "return_big" => Ok("x".repeat(n)),
        "hold_returns" => {
            let input = format!(r#"{{"mode": "return_big", "n": {n}}}"#);
            let mut held = 0;
            hold(loop {
                let child = match raw_runtime::launch("hostile", &input) {
                    Ok(child) => child,
                    Err(refused) => break refused,
                };
                child.pollable().block();
                match child.get() {
                    Some(Err(refused)) => break refused,
                    _ => forget(child),
                }
                held += 1;
                if held as u64 * n as u64 > 4 << 30 {
                    return Some(Err(format!("held {held} values of {n} bytes")));
                }
            })
        }
        "decode_big" => {
            let tokens = vec![97; n];
            for _ in 0..20 {
                model
                    .tokenizer()
                    .decode(&tokens)
                    .map(|text| text.len())
                    .ok();
            }
            Ok("decoded".into())
        }
        "encode_big" => {
            let text = "the same words again and again ".repeat(n / 31);
            for _ in 0..20 {
                model.tokenizer().encode(&text);
            }
            Ok("encoded".into())
        }
        "many_cues" => {
            for _ in 0..n {
                chat::cue(model.inner());
            }
            Ok("cued".into())
        }
        "fill_memory" => {
            let mut memory = vec![0u8; n];
            for i in 0..1_000 {
                memory.fill(i as u8);
                std::hint::black_box(&memory);
            }
            Ok("filled".into())
        }
        "fill_after_pass" => fill_after_pass(model, n).await,
        "detach_children" => {
            for _ in 0..n {
                drop(raw_runtime::launch("hostile", r#"{"mode": "sleep"}"#).unwrap());
            }
            Ok("detached".into())
        }
        "hoard_decoded" => {
            // A decoder keeps the text of a turn until the turn ends.
            let tokens = vec![97; 1 << 16];
            let mut decoders = vec![];
            hold(loop {
                let decoder = chat::create_decoder(model.inner());
                let refused = (0..n).find_map(|_| decoder.feed(&tokens).err());
                decoders.push(decoder);
                if let Some(refused) = refused {
                    break refused;
                }
                if decoders.len() * n > 1 << 16 {
                    return Some(Err("the decoders kept more than 4 GiB".into()));
                }
            })
        }
        "hoard_masks" => hold(hoard_masks(model, n)),
        "hoard_tokens" => hold(hoard_tokens(model, n as u32)),
        "read_everything" => read_everything(model, n),
        "fork_storm" => fork_storm(model, n).await,
        "hold_snapshots" => {
            let saved = async {
                let mut ctx = Context::new(model)?;
                ctx.append(&[97; 40]);
                ctx.flush().await?;
                ctx.inner().save("one")
            };
            if let Err(error) = saved.await {
                return Some(Err(error));
            }
            let mut held = 0;
            hold(loop {
                match Context::open(model, "one") {
                    Ok(opened) => forget(opened),
                    Err(refused) => break refused,
                }
                held += 1;
                if held == n {
                    break format!("{held} opened");
                }
            })
        }
        "save_loop" => {
            let mut ctx = match Context::new(model) {
                Ok(ctx) => ctx,
                Err(error) => return Some(Err(error)),
            };
            ctx.append(&vec![97; 1_000]);
            if let Err(error) = ctx.flush().await {
                return Some(Err(error));
            }
            for i in 0..n {
                if let Err(error) = ctx.inner().save(&format!("saved {}", i % 8)) {
                    return Some(Err(error));
                }
            }
            Ok("saved".into())
        }
        "accept_many" => loop {
            let matcher = match any_text(model) {
                Ok(matcher) => matcher,
                Err(error) => break Err(error),
            };
            // One call, which nothing interrupts.
            if let Err(error) = matcher.accept_tokens(&vec![97; n]) {
                break Err(error);
            }
        },
        "queue_passes" => queue_passes(model, n),
        "hold_files" => hold(wasi_calls::hold_files(n)),
        "write_unasked" => Ok(wasi_calls::write_unasked(n)),
        "print_unasked" => Ok(wasi_calls::print_unasked(n)),
        "crowd_reads" => wasi_calls::crowd_reads(n),
        "hold_streams" => hold(wasi_calls::hold_streams(n)),
        "hold_methods" => hold(wasi_calls::hold_methods(n)),
        "poll_duplicates" => {
            let never = monotonic_clock::subscribe_duration(3_600_000_000_000);
            poll(&vec![&never; n]);
            Err("it was waited for".into())
        }
        "random_bytes" => loop {
            std::hint::black_box(wasi::random::random::get_random_bytes(n as u64));
        },
        "poll_many" => {
            let never = monotonic_clock::subscribe_duration(3_600_000_000_000);
            let now = monotonic_clock::subscribe_duration(0);
            let mut all = vec![&never; n];
            all.push(&now);
            loop {
                poll(&all);
            }
        }
        "launch_and_cancel" => loop {
            if let Ok(child) = raw_runtime::launch("hostile", r#"{"mode": "sleep"}"#) {
                child.cancel();
            }
        },
        "litter" => litter(n).map(|()| "littered".into()),
        "hold_litter" => match litter(n) {
            Ok(()) => hold("littered".into()),
            Err(error) => Err(error),
        },
        "write_near_quota" => write_near_quota(n).map_err(|error| error.to_string()),
        "many_stops" => many_stops(model, n),
        "empty_runs" => empty_runs(model, n),
        "masked_drafts" => masked_drafts(model, n),
        "hoard_opened_masks" => hold(hoard_opened_masks(model, n)),
        "hoard_matchers" => hold(hoard_matchers(model, n)),
        "hoard_grammars" => hold(hoard_grammars(n)),
        "forced_chains" => forced_chains(model, n),
        "long_name" => Context::open(model, &"x".repeat(n)).map(|_| "opened".into()),
        "queue_all" => queue_all(model, n),
        "deep_folders" => deep_folders(n).map_err(|error| error.to_string()),
        _ => return None,
    })
}

/// A matcher that accepts every text.
fn any_text(model: &Model) -> Result<RawMatcher> {
    let grammar = RawGrammar::from_regex("(.|\n)*")?;
    Ok(RawMatcher::new(&grammar, model.tokenizer().inner()))
}

/// Makes many files without content.
fn litter(files: usize) -> Result<()> {
    for i in 0..files {
        std::fs::File::create(format!("/scratch/{i}")).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Nearly fills a /scratch of 4 MiB that has many files, and then writes one byte again and again. Before each few of these
/// writes, the engine has to measure all the files.
fn write_near_quota(files: usize) -> std::io::Result<String> {
    use std::io::{Seek, Write};
    for i in 0..files {
        std::fs::File::create(format!("/scratch/{i}"))?;
    }
    std::fs::write("/scratch/big", vec![7; (4 << 20) - (64 << 10)])?;
    let mut small = std::fs::File::create("/scratch/small")?;
    loop {
        small.rewind()?;
        small.write_all(b"x")?;
    }
}

/// Lets one pass of each of many contexts wait for the device, again and again.
fn queue_passes(model: &Model, contexts: usize) -> Result<String> {
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

/// A chain with many stop tokens.
fn many_stops(model: &Model, stops: usize) -> Result<String> {
    let ctx = Context::new(model)?;
    ctx.inner().reserve_working_pages(1)?;
    let pass = ForwardPass::new(model.inner());
    pass.context(ctx.inner());
    pass.input_tokens(&[97], &[0]);
    pass.sampler(&[0], &RawSampler::Multinomial((0.0, 1)));
    chains::run(&pass, 10, &vec![1; stops]).map(|_| "ran".into())
}

fn launch_until_refused(input: &str) -> String {
    loop {
        match raw_runtime::launch("hostile", input) {
            Ok(child) => forget(child),
            Err(refused) => return refused,
        }
    }
}

/// Keeps what was taken until it is cancelled.
fn hold(refused: String) -> Result<String> {
    messaging::broadcast("held", &refused);
    monotonic_clock::subscribe_duration(3_600_000_000_000).block();
    Err(refused)
}

/// Feeds contexts of many pages, and suspends them: the engine keeps their tokens.
fn hoard_tokens(model: &Model, pages: u32) -> String {
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

/// Feeds contexts with attention masks of many runs, which their histories keep.
fn hoard_masks(model: &Model, runs: usize) -> String {
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

/// One pass that has the largest allowed number of samplers and probes at every row.
fn read_everything(model: &Model, rows: usize) -> Result<String> {
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

/// Computes for long with a single instruction, each time that a pass has woken it.
async fn fill_after_pass(model: &Model, bytes: usize) -> Result<String> {
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
async fn fork_storm(model: &Model, forks: usize) -> Result<String> {
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
fn empty_runs(model: &Model, runs: usize) -> Result<String> {
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

/// Has the engine guess what follows a context with large masks, again and again.
fn masked_drafts(model: &Model, rows: usize) -> Result<String> {
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
fn hoard_opened_masks(model: &Model, rows: usize) -> String {
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

/// Forks a matcher of a long text many times.
fn hoard_matchers(model: &Model, tokens: usize) -> String {
    let long = any_text(model).and_then(|matcher| {
        matcher.accept_tokens(&vec![97; tokens])?;
        Ok(matcher)
    });
    let matcher = match long {
        Ok(matcher) => matcher,
        Err(error) => return error,
    };
    for _ in 0..1_000 {
        match constraints::fork(&matcher) {
            Ok(fork) => forget(fork),
            Err(refused) => return refused,
        }
    }
    panic!("no limit was met")
}

/// Holds many grammars with long sources.
fn hoard_grammars(bytes: usize) -> String {
    let source = format!("start: \"{}\"", "a".repeat(bytes));
    for _ in 0..1_000 {
        match RawGrammar::from_ebnf(&source) {
            Ok(grammar) => forget(grammar),
            Err(refused) => return refused,
        }
    }
    panic!("no limit was met")
}

/// Runs many chains whose grammar forces a long text, so that each of their tokens is expensive.
fn forced_chains(model: &Model, count: usize) -> Result<String> {
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
            // A chain that fails has come to the end of its pages.
            while chain.take().is_ok_and(|progress| progress.ended.is_none()) {
                chain.pollable().block();
            }
        }
    }
}

/// Lets one pass of each of very many contexts wait for the device, up to the limit.
fn queue_all(model: &Model, contexts: usize) -> Result<String> {
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

/// Makes folders within folders, each with a file, relative to one another.
fn deep_folders(depth: usize) -> std::io::Result<String> {
    let mut path = std::path::PathBuf::from("/data");
    let name = "d".repeat(200);
    for i in 0..depth {
        path.push(&name);
        std::fs::create_dir(&path)?;
        std::fs::write(path.join("file"), vec![1u8; 1 << 20])?;
        if path.as_os_str().len() > 3_000 {
            // Moves the whole tree one level down, so that its path as the host sees it grows.
            let next = format!("/data/{i}");
            std::fs::create_dir(&next)?;
            std::fs::rename(format!("/data/{name}"), format!("{next}/{name}"))?;
            std::fs::create_dir(format!("/data/{name}"))?;
            std::fs::rename(&next, format!("/data/{name}/{i}"))?;
            path = std::path::PathBuf::from(format!("/data/{name}"));
        }
    }
    Ok("made".into())
}
