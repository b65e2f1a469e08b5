//! {{description}}: it answers HTTP requests. Each request runs in an instance of its own.

use inferlet::http::{Request, Responder};
use inferlet::prelude::*;

const MAX_BODY_BYTES: usize = 1 << 20;

#[inferlet::http_handler]
async fn serve(mut request: Request, respond: Responder) -> Result<()> {
    let prompt = String::from_utf8_lossy(&request.body(MAX_BODY_BYTES).await?).into_owned();
    if prompt.is_empty() {
        return respond.status(400).send("POST a prompt\n").await;
    }
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.user(&prompt).cue();

    // The client sees each word as it comes.
    let mut body = respond.header("content-type", "text/plain; charset=utf-8").start()?;
    let mut decoder = chat::Decoder::new(&model);
    let mut answer = ctx.generate(Sampler::top_p(0.6, 0.95)).max_tokens(256);
    while let Some(step) = answer.next()? {
        let output = step.execute().await?;
        if let chat::Event::Delta(text) = decoder.feed(&output.tokens)? {
            body.write(text).await?;
        }
    }
    body.write("\n").await?;
    body.finish()
}
