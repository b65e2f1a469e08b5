//! The log-probabilities of the tokens of a prompt, for `echo` with `logprobs`.

use crate::options::Options;
use crate::scored::Scored;
use inferlet::prelude::*;
use inferlet::sample::{Distribution, Logprob};

/// How many tokens are scored in one pass.
const ROWS_AT_ONCE: usize = 256;

/// Scores each token by the distribution that the model gives for it. The first one has none, so its
/// log-probability is not a number.
pub async fn of(options: &Options, tokens: &[u32], top: usize) -> Result<Vec<Scored>> {
    let mut context = Context::new(&options.model)?;
    let first = tokens.first().map(|token| Scored {
        token: *token,
        logprob: f32::NAN,
        top: Vec::new(),
    });
    let mut all: Vec<Scored> = first.into_iter().collect();
    let most_likely = Distribution {
        temperature: 1.0,
        k: top.max(1) as u32,
    };
    // The last token predicts nothing that is asked for.
    let known = &tokens[..tokens.len().saturating_sub(1)];
    for piece in known.chunks(ROWS_AT_ONCE) {
        let from = all.len();
        let mut pass = context.forward();
        pass.input(piece);
        if let Some(adapter) = &options.adapter {
            pass.adapter(adapter);
        }
        let mut handles = Vec::new();
        for row in 0..piece.len() {
            let next = tokens[from + row];
            let own = pass.probe(row as u32, Logprob(next));
            handles.push((next, own, pass.probe(row as u32, most_likely)));
        }
        let output = pass.execute().await?;
        for (token, own, likely) in handles {
            let logprob = output.logprobs(own).and_then(|values| values.first());
            let (ids, probabilities) = output.distribution(likely).unwrap_or_default();
            let ranked = ids.iter().zip(probabilities).take(top);
            all.push(Scored {
                token,
                logprob: *logprob.ok_or("the engine gave no log-probabilities")?,
                top: ranked
                    .map(|(id, p)| (*id, p.max(f32::MIN_POSITIVE).ln()))
                    .collect(),
            });
        }
    }
    Ok(all)
}
