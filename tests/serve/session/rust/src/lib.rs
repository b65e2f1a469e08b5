//! Does what its client asks for. The programs beside it do the same in other languages.

use inferlet::prelude::*;
use inferlet::time::sleep;
use inferlet::ChildExt;
use inferlet::{messaging, session, FutureBlobExt, FutureStringExt, SubscriptionExt};
use serde_json::{json, Value};
use std::io::Write;
use std::time::Duration;

fn number(input: &Value, key: &str, otherwise: u64) -> u64 {
    input[key].as_u64().unwrap_or(otherwise)
}

/// Does one thing to a file. Returns what it read, `ok`, or `error: …`.
fn step(words: &Value) -> String {
    let word = |i: usize| words[i].as_str().unwrap_or_default();
    let done = match word(0) {
        "write" => std::fs::write(word(1), word(2)).map(|()| "ok".to_string()),
        #[allow(deprecated)] // its successor is not stable on WebAssembly
        "link" => std::fs::soft_link(word(1), word(2)).map(|()| "ok".to_string()),
        _ => std::fs::read_to_string(word(1)),
    };
    done.unwrap_or_else(|e| format!("error: {e}"))
}

/// Strings as they are and other values as JSON, as in other languages.
fn answer(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[inferlet::main]
async fn main(input: Value) -> Result<String> {
    run(input).await.map(answer)
}

async fn run(input: Value) -> Result<Value> {
    match input["do"].as_str().unwrap_or("hello") {
        // Sends everything that a session can carry, in order.
        "speak" => {
            session::send("text");
            session::send(&json!({"event": "tick", "n": 3}).to_string());
            println!("printed");
            eprintln!("complained");
            sleep(Duration::from_millis(number(&input, "wait_ms", 0))).await;
            session::send_file(&[0, 1, 255]);
            Ok(json!({"spoken": 5}))
        }
        // Prints, and ends in one way or another.
        "print" => {
            println!("one");
            println!("several\nlines 2");
            print!("no newline");
            match input["end"].as_str().unwrap_or_default() {
                "fail" => Err("it failed as asked".into()),
                "trap" => panic!("it failed as asked"),
                "exit" => std::process::exit(3),
                _ => Ok(json!("printed")),
            }
        }
        // Sends messages back until one says stop.
        "echo" => loop {
            match session::receive().wait_async().await {
                Some(message) if message == "stop" => return Ok(json!("stopped")),
                Some(message) => session::send(&message),
                None => return Ok(json!("the client left")),
            }
        },
        // Waits for two messages at once.
        "both" => {
            let (a, b) = (session::receive(), session::receive());
            let both = inferlet::futures::future::join(a.wait_async(), b.wait_async()).await;
            let (a, b) = (both.0.ok_or("the client left")?, both.1.ok_or("the client left")?);
            Ok(json!([(&a).min(&b), (&a).max(&b)]))
        }
        // Sends files back.
        "echo-file" => {
            sleep(Duration::from_millis(number(&input, "wait_ms", 0))).await;
            let file = session::receive_file().wait_async().await;
            let file = file.ok_or("the client left")?;
            session::send_file(&file);
            Ok(json!(file.len()))
        }
        // Sends numbers, with pauses.
        "count" => {
            let n = number(&input, "n", 10);
            sleep(Duration::from_millis(number(&input, "wait_ms", 0))).await;
            let pause = Duration::from_micros(number(&input, "pause_us", 0));
            for i in 0..n {
                session::send(&format!("{i}"));
                if !pause.is_zero() {
                    sleep(pause).await;
                }
            }
            Ok(json!(n))
        }
        // Prints numbers on stdout.
        "print_numbers" => {
            let n = number(&input, "n", 10);
            for i in 0..n {
                println!("{i}");
            }
            Ok(json!(n))
        }
        "send-file" => {
            session::send_file(&vec![7; number(&input, "n", 0) as usize]);
            Ok(json!(null))
        }
        "fail" => Err("it failed as asked".into()),
        "panic" => panic!("as asked"),
        "forever" => loop {
            sleep(Duration::from_secs(3600)).await;
        },
        "spin" => loop {
            std::hint::black_box(0);
        },
        // Sends each token of the model.
        "generate" => {
            let model = Model::load(&runtime::models()[0])?;
            let mut ctx = Context::new(&model)?;
            ctx.user("count").cue();
            let mut generator = ctx
                .generate(Sampler::Argmax)
                .max_tokens(number(&input, "n", 10) as usize)
                .ignore_eos();
            let mut tokens = 0;
            while let Some(step) = generator.next()? {
                tokens += step.execute().await?.tokens.len();
                session::send("t");
            }
            Ok(json!(tokens))
        }
        "user" => Ok(json!(runtime::username())),
        // Says that it listens, then waits for a broadcast.
        "listen" => {
            let topic = input["topic"].as_str().unwrap_or("t").to_string();
            let subscription = messaging::subscribe(&topic);
            session::send("listening");
            let heard = subscription.get_async().await;
            Ok(json!(heard))
        }
        "push" => {
            for i in 0..number(&input, "n", 0) {
                messaging::push(input["topic"].as_str().unwrap_or("t"), &i.to_string());
            }
            Ok(json!(null))
        }
        "pull" => {
            let mut taken = Vec::new();
            for _ in 0..number(&input, "n", 0) {
                let next = messaging::pull(input["topic"].as_str().unwrap_or("t"));
                taken.push(next.wait_async().await);
            }
            Ok(json!(taken))
        }
        // Launches a child and returns its result.
        "spawn" => {
            let text = |key: &str| input[key].as_str().unwrap_or_default();
            let child = runtime::launch(text("program"), text("input"))?;
            if input["cancel"] == true {
                child.cancel();
            }
            Ok(json!(child.wait_async().await?))
        }
        "files" => Ok(json!(input["steps"]
            .as_array()
            .into_iter()
            .flatten()
            .map(step)
            .collect::<Vec<_>>())),
        // Writes megabytes, slowly.
        "fill" => {
            let path = input["path"].as_str().unwrap_or_default();
            let mut file = std::fs::File::create(path).map_err(|e| e.to_string())?;
            if input["nameless"] == true {
                std::fs::remove_file(path).map_err(|e| e.to_string())?;
            }
            let mut megabytes = 0..number(&input, "mb", 0);
            let mut filled = megabytes.try_for_each(|_| file.write_all(&vec![7; 1 << 20]));
            if input["recover"] == true && filled.is_err() {
                // The file goes on to be written after it has been emptied.
                filled = file.set_len(0).and_then(|()| file.write_all(b"x"));
            }
            filled.map_err(|e| e.to_string())?;
            Ok(json!("full"))
        }
        "broadcast" => {
            messaging::broadcast(input["topic"].as_str().unwrap_or("t"), "news");
            Ok(json!(null))
        }
        other => Err(format!("what is {other}?").into()),
    }
}
