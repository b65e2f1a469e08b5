//! Asks the same about each file of a folder, all at once, and combines the answers. The instructions are computed once
//! and shared by all files.

use std::fs;

use futures::future::try_join_all;
use inferlet::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Input {
    folder: String,
    question: String,
    max_tokens: Option<usize>,
}

/// The names and texts of the files, by name.
fn read(folder: &str) -> Result<Vec<(String, String)>> {
    let path = format!("/data/{folder}");
    let unreadable = |error: std::io::Error| format!("cannot read {path}: {error}");
    let mut files = Vec::new();
    for entry in fs::read_dir(&path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push((name, fs::read_to_string(entry.path()).map_err(unreadable)?));
    }
    files.sort();
    Ok(files)
}

async fn ask(mut ctx: Context, text: &str, max_tokens: usize) -> Result<String> {
    let generator = ctx.user(text).cue().generate(Sampler::Argmax);
    generator.max_tokens(max_tokens).collect_text().await
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    let max_tokens = input.max_tokens.unwrap_or(128);
    let files = read(&input.folder)?;
    let model = Model::load(&runtime::models()[0])?;
    let mut prefix = Context::new(&model)?;
    prefix.system("You read one part of a collection at a time. Answer in one sentence.");
    prefix.flush().await?;

    let answers = try_join_all(files.iter().map(|(name, text)| {
        let fork = prefix.fork();
        let prompt = format!("{name}:\n{text}\n\n{}", input.question);
        async move { ask(fork?, &prompt, max_tokens).await }
    }))
    .await?;
    let mut notes = String::from("These are the answers for each part.\n");
    for ((name, _), answer) in files.iter().zip(&answers) {
        notes += &format!("- {name}: {answer}\n");
    }
    ask(prefix, &format!("{notes}\n{}", input.question), max_tokens).await
}
