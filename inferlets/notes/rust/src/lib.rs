//! Keeps notes in files of /scratch, and reads them back.

use inferlet::prelude::*;
use std::fs;

#[derive(serde::Deserialize)]
struct Input {
    notes: String,
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    keep(&input.notes).map_err(|error| error.to_string())
}

fn keep(notes: &str) -> std::io::Result<String> {
    fs::create_dir_all("/scratch/notes")?;
    for (number, note) in notes.split(',').enumerate() {
        fs::write(format!("/scratch/notes/{number}.txt"), note.trim())?;
    }
    let mut lines = Vec::new();
    for entry in fs::read_dir("/scratch/notes")? {
        let path = entry?.path();
        lines.push(format!("{}: {}", path.display(), fs::read_to_string(&path)?));
    }
    lines.sort();
    Ok(lines.join("\n"))
}
