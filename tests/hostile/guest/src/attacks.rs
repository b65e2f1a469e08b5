//! Attacks on others: each takes as much as it gets of something that all users share.
//! `availability.cc` runs them beside a neighbour of another user.

use crate::{files, passes, wasi_calls};
use inferlet::pie::core::inference::{Grammar as RawGrammar, Matcher as RawMatcher};
use inferlet::pie::core::{messaging, runtime as raw_runtime};
use inferlet::pie::instruct::chat;
use inferlet::pie::plus::constraints;
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
        "fill_after_pass" => passes::fill_after_pass(model, n).await,
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
        "hoard_masks" => hold(passes::hoard_masks(model, n)),
        "hoard_tokens" => hold(passes::hoard_tokens(model, n as u32)),
        "read_everything" => passes::read_everything(model, n),
        "fork_storm" => passes::fork_storm(model, n).await,
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
        "queue_passes" => passes::queue_passes(model, n),
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
        "litter" => files::litter(n).map(|()| "littered".into()),
        "hold_litter" => match files::litter(n) {
            Ok(()) => hold("littered".into()),
            Err(error) => Err(error),
        },
        "write_near_quota" => files::write_near_quota(n).map_err(|error| error.to_string()),
        "many_stops" => passes::many_stops(model, n),
        "empty_runs" => passes::empty_runs(model, n),
        "masked_drafts" => passes::masked_drafts(model, n),
        "hoard_opened_masks" => hold(passes::hoard_opened_masks(model, n)),
        "hoard_matchers" => hold(hoard_matchers(model, n)),
        "hoard_grammars" => hold(hoard_grammars(n)),
        "forced_chains" => passes::forced_chains(model, n),
        "long_name" => Context::open(model, &"x".repeat(n)).map(|_| "opened".into()),
        "queue_all" => passes::queue_all(model, n),
        "move_files" => files::move_files(n, false).map_err(|error| error.to_string()),
        "link_files" => files::move_files(n, true).map_err(|error| error.to_string()),
        "hold_nameless" => hold(files::hold_nameless(n)),
        "wasi_corners" => wasi_calls::corners(),
        "hold_listings" => hold(wasi_calls::hold_listings(n)),
        "sync_files" => files::sync_files(n).map_err(|error| error.to_string()),
        "truncate_files" => files::truncate_files(n).map_err(|error| error.to_string()),
        "masked_returns" => passes::masked_returns(model, n),
        "fork_and_drop" => passes::fork_and_drop(model, n),
        "hoard_followers" => hold(passes::hoard_followers(model, n)),
        "many_saves" => passes::many_saves(model, n as u32).await,
        "slow_masks" => passes::slow_masks(model, n),
        "deep_folders" => files::deep_folders(n).map_err(|error| error.to_string()),
        _ => return None,
    })
}

/// A matcher that accepts every text.
fn any_text(model: &Model) -> Result<RawMatcher> {
    let grammar = RawGrammar::from_regex("(.|\n)*")?;
    Ok(RawMatcher::new(&grammar, model.tokenizer().inner()))
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
