//! Several answers to one prompt: the prompt is computed once, its forks share the pages and run at once.

use futures::future::try_join_all;
use inferlet::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(default)]
struct Input {
    prompt: String,
    n: usize,
    max_tokens: usize,
}

impl Default for Input {
    fn default() -> Self {
        Self {
            prompt: "Tell me about pie.".into(),
            n: 4,
            max_tokens: 32,
        }
    }
}

#[inferlet::main]
async fn main(input: Input) -> Result<Vec<String>> {
    let model = Model::load(&runtime::models()[0])?;
    let mut prefix = Context::new(&model)?;
    prefix
        .system("You are a helpful assistant.")
        .user(&input.prompt);
    prefix.flush().await?;

    let mut forks = (0..input.n)
        .map(|_| prefix.fork())
        .collect::<Result<Vec<Context>>>()?;
    let answers = forks.iter_mut().map(|ctx| {
        ctx.cue()
            .generate(Sampler::top_p(0.8, 0.95))
            .max_tokens(input.max_tokens)
            .collect_text()
    });
    try_join_all(answers).await
}
