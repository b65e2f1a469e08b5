//! Answers HTTP requests in a different way for each path.

use inferlet::http::{self, Request, Responder};
use inferlet::prelude::*;
use inferlet::time::sleep;
use serde_json::json;
use std::time::Duration;

const MAX_BODY_BYTES: usize = 8 << 20;

#[inferlet::http_handler]
async fn serve(mut request: Request, respond: Responder) -> Result<()> {
    match request.path() {
        "/about" => {
            let headers: serde_json::Map<_, _> =
                request.headers().iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            let about = json!({
                "method": request.method(),
                "query": request.query(),
                "headers": headers,
                "user": runtime::username(),
                "instance": runtime::instance_id(),
                "input": std::env::var("PIE_INPUT").unwrap_or_default(),
            });
            respond.header("content-type", "application/json").send(about.to_string()).await
        }
        "/echo" => {
            let body = request.body(MAX_BODY_BYTES).await?;
            respond.status(201).send(body).await
        }
        "/pipe" => {
            let mut body = respond.start()?;
            while let Some(piece) = request.chunk().await? {
                body.write(piece).await?;
            }
            body.finish()
        }
        "/stream" => {
            let mut body = respond.header("content-type", "text/event-stream").start()?;
            for i in 0..3 {
                body.write(format!("data: {i}\n\n")).await?;
                sleep(Duration::from_millis(50)).await;
            }
            body.finish()
        }
        "/flood" => {
            let mut body = respond.start()?;
            for _ in 0..4096 {
                body.write([b'x'; 64 << 10]).await?;
            }
            body.finish()
        }
        "/cut" => {
            let mut body = respond.start()?;
            body.write("half").await
        }
        "/late" => {
            sleep(Duration::from_secs(3600)).await;
            respond.send("late").await
        }
        "/page" => {
            let respond = respond.header("content-type", "text/html").header("set-cookie", "a=b");
            let respond = respond.header("service-worker-allowed", "/");
            respond.header("clear-site-data", "\"*\"").send("<p>text</p>").await
        }
        "/trap" => panic!("as asked"),
        "/none" => Ok(()),
        "/generate" => {
            let model = Model::load(&runtime::models()[0])?;
            let mut ctx = Context::new(&model)?;
            ctx.user("hello").cue();
            let text = ctx.generate(Sampler::Argmax).max_tokens(8).collect_text().await?;
            respond.send(text).await
        }
        "/fetch" => {
            let url = request.query().to_string();
            let answer = async { http::get(&url).send().await?.text().await };
            match answer.await {
                Ok(text) => respond.send(text).await,
                Err(error) => respond.status(502).send(error).await,
            }
        }
        "/post" => {
            let question = json!({"a": [1, "ü"]});
            let answer = http::post(request.query()).header("x-key", "k").json(&question);
            let answer = answer.send().await?;
            let (status, ok) = (answer.status(), answer.is_ok());
            let value: serde_json::Value = answer.json().await?;
            respond.send(json!([status, ok, value]).to_string()).await
        }
        "/library" => match library(request.query().to_string()).await {
            Ok((status, text)) => respond.status(status).send(text).await,
            Err(error) => respond.status(502).send(error).await,
        },
        "/files" => {
            let seen = files().map_err(|error| error.to_string())?;
            respond.send(seen.to_string()).await
        }
        _ => respond.status(404).send("no such path").await,
    }
}

/// A request by the library `wstd`, while a model generates and a timer of `wstd` runs.
async fn library(url: String) -> Result<(u16, Vec<u8>)> {
    use wstd::http::{Client, Request};

    let fetch = async {
        let request = Request::get(&url).body(wstd::io::empty()).map_err(|e| e.to_string())?;
        let mut answer = Client::new().send(request).await.map_err(|e| format!("{e:?}"))?;
        let text = answer.body_mut().bytes().await.map_err(|e| format!("{e:?}"))?;
        Ok::<_, String>((answer.status().as_u16(), text))
    };
    let generate = async {
        let model = Model::load(&runtime::models()[0])?;
        let mut ctx = Context::new(&model)?;
        ctx.user("hello").cue();
        ctx.generate(Sampler::Argmax).max_tokens(8).collect_text().await
    };
    let beside = wstd::runtime::spawn(async {
        wstd::task::sleep(wstd::time::Duration::from_millis(20)).await;
        "slept"
    });
    let pause = wstd::task::sleep(wstd::time::Duration::from_millis(50));
    let (fetched, generated, _) = futures::join!(fetch, generate, pause);
    assert_eq!(beside.await, "slept");
    assert!(!generated?.is_empty());
    fetched
}

fn files() -> std::io::Result<serde_json::Value> {
    use std::io::Write;
    let names = |folder: &str| -> std::io::Result<Vec<String>> {
        let mut names: Vec<String> = std::fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let path = "/scratch/a/text";
    std::fs::create_dir_all("/scratch/a/b")?;
    std::fs::write(path, "one\n")?;
    std::fs::OpenOptions::new().append(true).open(path)?.write_all(b"two\n")?;
    let seen = (std::fs::read_to_string(path)?, names("/scratch/a")?, std::fs::metadata(path)?.len());
    std::fs::remove_file(path)?;
    std::fs::remove_dir("/scratch/a/b")?;
    let exists = std::path::Path::new(path).exists();
    Ok(json!([seen.0, seen.1, seen.2, names("/scratch/a")?, exists]))
}
