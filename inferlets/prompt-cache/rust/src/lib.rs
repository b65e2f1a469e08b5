//! Answers questions about a document. The document is computed once and saved under a name. Later runs, also after a
//! restart of the engine, open the snapshot and compute nothing but the question.

use inferlet::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    document: String,
    name: String,
    question: String,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Answer {
    answer: String,
    /// How many tokens were in the snapshot.
    reused: u32,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Answer> {
    let model = Model::load(&runtime::models()[0])?;
    let (mut ctx, reused) = match Context::open(&model, &input.name) {
        Ok(ctx) => {
            let known = ctx.seq_len();
            (ctx, known)
        }
        Err(error) if error.contains("no snapshot") => {
            let mut ctx = Context::new(&model)?;
            let about = format!(
                "Answer questions about this document.\n\n{}",
                input.document
            );
            ctx.system(&about).flush().await?;
            ctx.save(&input.name)?;
            (ctx, 0)
        }
        Err(error) => return Err(error),
    };
    let generator = ctx.user(&input.question).cue().generate(Sampler::Argmax);
    let limit = input.max_tokens.unwrap_or(128);
    let answer = generator.max_tokens(limit).collect_text().await?;
    Ok(Answer { answer, reused })
}
