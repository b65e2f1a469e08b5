//! Uses each part of the documented API. It is written against the published crate.

use inferlet::model::Model;
use inferlet::pie::core::session;
use inferlet::sample::{Distribution, Entropy, Logits, Sampler};
use inferlet::{chat, messaging, runtime, Context, FutureStringExt, Result, SubscriptionExt};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: String,
    max_tokens: usize,
}

#[derive(Serialize)]
struct Output {
    models: Vec<String>,
    text: String,
    collected: String,
    probed: Vec<f32>,
    distribution: usize,
    vocabulary: usize,
    forked: bool,
    pulled: Option<String>,
    heard: Option<String>,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Output> {
    let models = runtime::models();
    let model = Model::load(&models[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.system("Be brief.").user(&input.prompt);
    ctx.flush().await?;
    let mut fork = ctx.fork()?;
    let forked = fork.seq_len() == ctx.seq_len();

    // Step by step, streaming.
    ctx.cue();
    let mut text = String::new();
    let mut dec = chat::Decoder::new(&model);
    let mut g = ctx.generate(Sampler::Argmax).max_tokens(input.max_tokens);
    let mut probed = Vec::new();
    while let Some(mut step) = g.next()? {
        let h = step.probe(0, Entropy);
        let out = step.execute().await?;
        probed.extend(out.entropy(h));
        match dec.feed(&out.tokens)? {
            chat::Event::Delta(s) => {
                session::send(&s);
                text.push_str(&s);
            }
            chat::Event::Done(_) => break,
            _ => {}
        }
    }

    // Collected, from the fork: the same tokens.
    fork.cue();
    let collected = fork
        .generate(Sampler::Argmax)
        .max_tokens(input.max_tokens)
        .collect_text()
        .await?;

    // One pass of our own.
    let mut other = Context::new(&model)?;
    let tokens = model.tokenizer().encode("abc");
    let mut fwd = other.forward();
    fwd.input(&tokens);
    let logits = fwd.probe(2, Logits);
    let top = fwd.probe(
        2,
        Distribution {
            temperature: 1.0,
            k: 5,
        },
    );
    let out = fwd.execute().await?;
    let vocabulary = out.logits(logits).map_or(0, |bytes| bytes.len() / 4);
    let distribution = out.distribution(top).map_or(0, |(ids, _)| ids.len());

    messaging::push("compat", "one");
    let pulled = messaging::pull("compat").wait_async().await;
    let news = messaging::subscribe("compat-news");
    messaging::broadcast("compat-news", "x");
    let heard = news.get_async().await;

    Ok(Output {
        models,
        text,
        collected,
        probed,
        distribution,
        vocabulary,
        forked,
        pulled,
        heard,
    })
}
