//! Jacobi decoding: guesses the next tokens, lets one pass predict all of them, and takes the predictions as the next
//! guesses. The predictions after right guesses are right, so a pass gives at least one token, and often more. The
//! text is that of greedy decoding.

use inferlet::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    prompt: String,
    guesses: Option<usize>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Answer {
    text: String,
    tokens: usize,
    passes: usize,
}

#[inferlet::main]
async fn main(input: Input) -> Result<Answer> {
    let limit = input.max_tokens.unwrap_or(64);
    let model = Model::load(&runtime::models()[0])?;
    let stops = chat::stop_tokens(&model);
    let mut ctx = Context::new(&model)?;
    let mut known = chat::user(&model, &input.prompt); // not computed yet, but certain
    known.extend(chat::cue(&model));
    let mut guesses = vec![known[0]; input.guesses.unwrap_or(4)];

    let (mut answer, mut passes) = (Vec::new(), 0);
    'text: while answer.len() < limit {
        let mut pass = ctx.forward();
        pass.input(&known).input(&guesses);
        let first = known.len() as u32 - 1;
        let rows: Vec<u32> = (first..=first + guesses.len() as u32).collect();
        let predicted = pass.sample(&rows, Sampler::Argmax);
        let tokens = pass.execute().await?.tokens_at(predicted);
        passes += 1;

        let right = guesses
            .iter()
            .zip(&tokens)
            .take_while(|(guess, token)| guess == token)
            .count();
        ctx.truncate((guesses.len() - right) as u32)?; // the wrong guesses
        for token in &tokens[..=right] {
            if stops.contains(token) || answer.len() == limit {
                break 'text;
            }
            answer.push(*token);
        }
        known = vec![tokens[right]];
        for (guess, token) in guesses.iter_mut().zip(&tokens[right + 1..]) {
            *guess = *token;
        }
    }
    let text = model.tokenizer().decode(&answer)?;
    Ok(Answer {
        text,
        tokens: answer.len(),
        passes,
    })
}
