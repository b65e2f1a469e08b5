//! Lets every token attend to a window of the latest tokens only, by attention masks. The cost of a token does not grow
//! with the text, and what is older than the window is forgotten.

use inferlet::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    prompt: String,
    window: Option<u32>,
    max_tokens: Option<usize>,
}

/// The mask of the token at `position` as run lengths: the number of tokens that it does not see, then the number that it
/// sees.
fn mask(position: u32, window: u32) -> [u32; 2] {
    let seen = window.min(position + 1);
    [position + 1 - seen, seen]
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let window = input.window.unwrap_or(64).max(1);
    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    let mut pending = chat::user(&model, &input.prompt);
    pending.extend(chat::cue(&model));
    let stops = chat::stop_tokens(&model);

    let mut answer = Vec::new();
    while answer.len() < input.max_tokens.unwrap_or(64) {
        let mut pass = ctx.forward();
        let start = pass.start_position();
        let rows = start..start + pending.len() as u32;
        let masks: Vec<_> = rows.map(|position| mask(position, window)).collect();
        pass.input(&pending).attention_mask(&masks);
        let last = pass.sample(&[pending.len() as u32 - 1], Sampler::Argmax);
        let out = pass.execute().await?;
        let token = out.token(last).ok_or("the pass gave no token")?;
        if stops.contains(&token) {
            break;
        }
        answer.push(token);
        pending = vec![token];
    }
    model.tokenizer().decode(&answer)
}
