//! Asks the same several times and returns the result that most of the answers agree on. What an answer thinks before
//! its last word does not count.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use inferlet::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: String,
    n: Option<usize>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Agreed {
    answer: String,
    votes: usize,
}

/// The last word of a text, without punctuation.
fn result_of(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .next_back()
        .unwrap_or_default()
        .to_string()
}

#[inferlet::main]
async fn main(input: Input) -> Result<Agreed> {
    let model = Model::load(&runtime::models()[0])?;
    let mut prefix = Context::new(&model)?;
    prefix.system("Think step by step. The last word of your answer is the result.");
    prefix.user(&input.prompt).flush().await?;

    let mut forks = (0..input.n.unwrap_or(9))
        .map(|_| prefix.fork())
        .collect::<Result<Vec<Context>>>()?;
    let texts = try_join_all(forks.iter_mut().map(|ctx| {
        let generator = ctx.cue().generate(Sampler::top_p(0.8, 0.95));
        generator
            .max_tokens(input.max_tokens.unwrap_or(128))
            .collect_text()
    }))
    .await?;

    let mut votes = BTreeMap::new();
    for text in &texts {
        *votes.entry(result_of(text)).or_insert(0) += 1;
    }
    let winner = votes.into_iter().max_by_key(|(_, votes)| *votes);
    let (answer, votes) = winner.ok_or("n must be at least 1")?;
    Ok(Agreed { answer, votes })
}
