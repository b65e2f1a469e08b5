//! Answers HTTP requests in as many ways as there are paths.

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
        _ => respond.status(404).send("no such path").await,
    }
}
