//! Misbehaves in one of many modes. `hostile.cc` says what the engine must do about each.

mod attacks;
mod corners;
mod files;
mod passes;
mod storms;
mod wasi_calls;

use inferlet::pie::core::inference::{ForwardPass, Sampler as RawSampler};
use inferlet::pie::core::{messaging, runtime as raw_runtime, session};
use inferlet::prelude::*;
use inferlet::wasi::clocks::monotonic_clock;
use inferlet::wasi::io::poll::poll;
use serde::Deserialize;
use std::hint::black_box;

#[derive(Deserialize)]
struct Input {
    mode: String,
    /// The size of an attack.
    #[serde(default)]
    n: usize,
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    if let Some(done) = attacks::run(&input.mode, input.n, &model).await {
        return done;
    }
    if let Some(done) = storms::run(&input.mode, input.n, &model) {
        return done;
    }
    if let Some(done) = corners::run(&input.mode, input.n, &model) {
        return done;
    }
    match input.mode.as_str() {
        // A well-behaved neighbour of the others.
        "steady" => {
            let mut ctx = Context::new(&model)?;
            ctx.append(&[97]);
            let tokens = ctx
                .generate(Sampler::Argmax)
                .max_tokens(200)
                .ignore_eos()
                .collect_tokens()
                .await?;
            Ok(format!("{} tokens", tokens.len()))
        }
        "loop" => loop {
            black_box(0);
        },
        "recurse" => Ok(recurse(black_box(1)).to_string()),
        "recurse_with_locals" => Ok(recurse_with_locals(0).to_string()),
        "grow" => {
            let mut hoard = vec![];
            loop {
                hoard.push(vec![1u8; 1 << 20]);
                black_box(&hoard);
            }
        }
        "contexts" => loop {
            std::mem::forget(Context::new(&model)?);
        },
        "passes" => loop {
            std::mem::forget(ForwardPass::new(model.inner()));
        },
        "pollables" => loop {
            std::mem::forget(monotonic_clock::subscribe_duration(1));
        },
        "subscriptions" => loop {
            std::mem::forget(messaging::subscribe("leak"));
        },
        "queue" => loop {
            messaging::push("never-read", "more");
        },
        "hoard_passes" => loop {
            // Uses few handles, but much of the engine's memory.
            let pass = ForwardPass::new(model.inner());
            pass.input_tokens(&[97; 100_000], &[0; 100_000]);
            match pass.execute() {
                Err(refused) if refused.contains("memory limit") => return Err(refused),
                _ => std::mem::forget(pass),
            }
        },
        "hoard_messages" => {
            for i in 0.. {
                messaging::push(&format!("topic {i}"), &"x".repeat(1 << 20));
            }
            Ok("pushed".into())
        }
        "hoard_letters" => loop {
            // Sends messages to a subscriber that never reads them.
            std::mem::forget(messaging::pull("asked for"));
            messaging::push("asked for", &"x".repeat(1 << 20));
        },
        "hoard_broadcasts" => {
            for i in 0.. {
                let topic = format!("news {i}");
                std::mem::forget(messaging::subscribe(&topic));
                messaging::broadcast(&topic, &"x".repeat(1 << 20));
            }
            Ok("told".into())
        }
        "launch_many" => loop {
            std::mem::forget(raw_runtime::launch("hostile", r#"{"mode": "fail"}"#)?);
        },
        "wait_after_destroy" => {
            // Each pass must end, with or without a result.
            for _ in 0..100 {
                let mut ctx = Context::new(&model)?;
                let futures = [pass(&model, &mut ctx, 97)?, pass(&model, &mut ctx, 98)?];
                drop(ctx);
                for future in futures {
                    future.pollable().block();
                }
            }
            Ok("waited".into())
        }
        "flood" => loop {
            println!("{}", "flood ".repeat(1000));
        },
        "panic" => panic!("the guest's own message"),
        "fail" => Err("the guest's own error".into()),
        "exit" => {
            // Ends during a pass, so that its result is never taken.
            let _in_flight = pass(&model, &mut Context::new(&model)?, 97)?;
            std::process::exit(3)
        }
        "abandon" => {
            let mut contexts = vec![];
            for _ in 0..32 {
                let mut ctx = Context::new(&model)?;
                std::mem::forget(pass(&model, &mut ctx, 97)?);
                contexts.push(ctx);
            }
            std::mem::forget(contexts);
            Ok("left everything behind".into())
        }
        "panic_holding" => {
            let mut ctx = Context::new(&model)?;
            ctx.append(&(0..100).collect::<Vec<u32>>());
            ctx.flush().await?;
            let _fork = ctx.fork()?;
            let _sub = messaging::subscribe("held");
            let _receive = session::receive();
            let _in_flight = pass(&model, &mut ctx, 97)?;
            panic!("with hands full")
        }
        "sleep" => {
            monotonic_clock::subscribe_duration(3_600_000_000_000).block();
            Ok("woke".into())
        }
        "wait_for_pass_forever" => {
            // Runs passes without end, so that a cancellation arrives during one.
            loop {
                let mut ctx = Context::new(&model)?;
                ctx.append(&[97]);
                let endless = ctx.generate(Sampler::Argmax).ignore_eos();
                endless.collect_tokens().await.ok(); // until the context is full
            }
        }
        "poll_nothing" => {
            poll(&[]);
            Ok("polled".into())
        }
        "use_destroyed" => {
            let ctx = Context::new(&model)?;
            ctx.inner().destroy();
            ctx.inner().fork().map(|_| "forked".into())
        }
        "bad_calls" => Ok(bad_calls(&model)?.join("\n")),
        "launch_self" => {
            let child = raw_runtime::launch("hostile", r#"{"mode": "launch_self"}"#)?;
            child.pollable().block();
            child.get().unwrap_or(Err("no answer".into()))
        }
        "scratch" => scratch().map_err(|e| e.to_string()),
        "read_secrets" => {
            let env: Vec<_> = std::env::vars().collect();
            let files = ["/etc/passwd", "/proc/self/environ", "..", "/"];
            let opened = files
                .iter()
                .filter(|f| std::fs::metadata(f).is_ok())
                .count();
            let net = std::net::TcpStream::connect("127.0.0.1:22").is_ok();
            Ok(format!("env {} files {opened} net {net}", env.len()))
        }
        mode => Err(format!("no mode is called {mode}")),
    }
}

/// Overflows the stack with calls only.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    if depth == 0 {
        return 0;
    }
    recurse(depth.wrapping_add(1)).wrapping_mul(depth) ^ depth
}

/// Overflows the stack in the guest's memory, too.
fn recurse_with_locals(depth: u64) -> u64 {
    let ballast = black_box([depth; 64]);
    1 + recurse_with_locals(depth + 1) + ballast[(depth % 64) as usize]
}

type Future = inferlet::pie::core::inference::FutureOutput;

fn pass(model: &Model, ctx: &mut Context, token: u32) -> Result<Future> {
    let pass = ForwardPass::new(model.inner());
    let position = ctx.seq_len();
    ctx.inner().reserve_working_pages(1)?;
    pass.context(ctx.inner());
    pass.input_tokens(&[token], &[position]);
    pass.sampler(&[0], &RawSampler::TopK((0.0, 1)));
    pass.execute()
}

/// Uses its own folder, and tries to leave it.
fn scratch() -> std::io::Result<String> {
    std::fs::write("/scratch/note", "kept")?;
    let ways_out = [
        "/scratch/../../etc/passwd",
        "/scratch/../note",
        "/etc/passwd",
    ];
    let escaped = ways_out.iter().any(|path| std::fs::read(path).is_ok());
    Ok(format!(
        "{} escaped {escaped}",
        std::fs::read_to_string("/scratch/note")?
    ))
}

/// Calls functions with invalid arguments. Each call must return an error.
fn bad_calls(model: &Model) -> Result<Vec<String>> {
    let ctx = Context::new(model)?;
    let raw = ctx.inner();
    raw.reserve_working_pages(1)?;
    let mut errors = vec![];
    let mut expect = |what: &str, answer: Result<()>| match answer {
        Ok(()) => errors.push(format!("{what}: ACCEPTED")),
        Err(text) => errors.push(format!("{what}: {text}")),
    };
    let execute = |edit: &dyn Fn(&ForwardPass)| {
        let pass = ForwardPass::new(model.inner());
        edit(&pass);
        pass.execute().map(|_| ())
    };
    expect("model", Model::load("nonsense").map(|_| ()));
    expect("commit", raw.commit_working_pages(1));
    expect("reserve", raw.reserve_working_pages(u32::MAX));
    expect("open", Context::open(model, "nonsense").map(|_| ()));
    expect("delete", Context::delete(model, "nonsense"));
    expect("save", raw.save(""));
    expect("launch", raw_runtime::launch("nonsense", "{}").map(|_| ()));
    expect("decode", model.tokenizer().decode(&[u32::MAX]).map(|_| ()));
    expect("empty", execute(&|p| p.context(raw)));
    expect("no context", execute(&|p| p.input_tokens(&[97], &[0])));
    expect(
        "token",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[u32::MAX], &[0]);
        }),
    );
    expect(
        "position",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[97], &[u32::MAX]);
        }),
    );
    expect(
        "row",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[97], &[0]);
            p.sampler(&[7], &RawSampler::RawLogits);
        }),
    );
    expect(
        "temperature",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[97], &[0]);
            p.sampler(&[0], &RawSampler::TopP((f32::NAN, 0.5)));
        }),
    );
    expect(
        "draws",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[97], &[0]);
            p.sampler(&[0], &RawSampler::Multinomial((1.0, u32::MAX)));
        }),
    );
    expect(
        "attention rows",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[97], &[0]);
            p.attention_mask(&[vec![0, 1], vec![0, 1]]);
        }),
    );
    expect(
        "room",
        execute(&|p| {
            p.context(raw);
            p.input_tokens(&[97; 100], &(0..100).collect::<Vec<u32>>());
        }),
    );
    Ok(errors)
}
