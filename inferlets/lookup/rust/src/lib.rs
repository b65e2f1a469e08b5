//! Guesses ahead with the words of the prompt: what followed the last token there may follow it again.

use inferlet::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    prompt: String,
    max_tokens: Option<usize>,
}

struct Lookup {
    /// The prompt, and the answer so far.
    text: Vec<u32>,
}

impl Speculator for Lookup {
    fn draft(&mut self) -> (Vec<u32>, Vec<u32>) {
        let Some((last, before)) = self.text.split_last() else {
            return Default::default();
        };
        let Some(found) = before.iter().rposition(|token| token == last) else {
            return Default::default();
        };
        let drafts = before[found + 1..].iter().take(4).copied().collect();
        (drafts, Vec::new()) // after the sequence
    }

    fn accept(&mut self, accepted: &[u32]) {
        self.text.extend_from_slice(accepted);
    }
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.user(&input.prompt).cue();
    let lookup = Lookup {
        text: ctx.buffer().to_vec(),
    };
    let generator = ctx.generate(Sampler::Argmax).speculator(lookup);
    generator
        .max_tokens(input.max_tokens.unwrap_or(64))
        .collect_text()
        .await
}
