//! Answers a question from the passages of a folder that fit it best. A passage fits if it has the question's words, rare
//! words above all (BM25). Everything happens in one program next to the model: no index, no second service.

use std::collections::{HashMap, HashSet};
use std::fs;

use inferlet::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    folder: String,
    question: String,
    passages: Option<usize>,
    max_tokens: Option<usize>,
}

#[derive(Serialize)]
struct Answer {
    answer: String,
    sources: Vec<String>,
}

struct Passage {
    source: String,
    text: String,
    words: HashMap<String, f32>,
    length: f32,
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Paragraphs of all files, in the order of their names.
fn read(folder: &str) -> Result<Vec<Passage>> {
    let path = format!("/data/{folder}");
    let unreadable = |error: std::io::Error| format!("cannot read {path}: {error}");
    let mut passages = Vec::new();
    for entry in fs::read_dir(&path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let source = entry.file_name().to_string_lossy().into_owned();
        let file = fs::read_to_string(entry.path()).map_err(unreadable)?;
        for text in file.split("\n\n").filter(|text| !text.trim().is_empty()) {
            let mut counts = HashMap::new();
            words(text).for_each(|word| *counts.entry(word).or_insert(0.0) += 1.0);
            let length = counts.values().sum();
            let text = text.trim().to_string();
            passages.push(Passage {
                source: source.clone(),
                text,
                words: counts,
                length,
            });
        }
    }
    passages.sort_by(|a, b| a.source.cmp(&b.source));
    Ok(passages)
}

/// Sorts the passages by how well they fit the question, the best first.
fn rank(passages: &mut [Passage], question: &str) {
    let count = passages.len() as f32;
    let mean = passages.iter().map(|p| p.length).sum::<f32>() / count.max(1.0);
    let asked: HashSet<String> = words(question).collect();
    let rarity: HashMap<&String, f32> = asked
        .iter()
        .map(|word| {
            let having = passages
                .iter()
                .filter(|p| p.words.contains_key(word))
                .count() as f32;
            (word, (1.0 + (count - having + 0.5) / (having + 0.5)).ln())
        })
        .collect();
    let score = |passage: &Passage| -> f32 {
        let weigh = |(word, rarity): (&&String, &f32)| {
            let times = passage.words.get(*word).copied().unwrap_or(0.0);
            rarity * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * passage.length / mean))
        };
        rarity.iter().map(weigh).sum()
    };
    passages.sort_by(|a, b| score(b).total_cmp(&score(a)));
}

#[inferlet::main]
async fn main(input: Input) -> Result<Answer> {
    let mut passages = read(&input.folder)?;
    rank(&mut passages, &input.question);
    passages.truncate(input.passages.unwrap_or(3));
    let shown: Vec<&str> = passages.iter().map(|p| p.text.as_str()).collect();

    let model = Model::load(&runtime::models()[0])?;
    let mut ctx = Context::new(&model)?;
    ctx.system("Answer from the passages only. Say so if they do not tell.");
    ctx.user(&format!("{}\n\n{}", shown.join("\n\n"), input.question))
        .cue();
    let generator = ctx.generate(Sampler::Argmax);
    let answer = generator
        .max_tokens(input.max_tokens.unwrap_or(128))
        .collect_text()
        .await?;
    let sources = passages.into_iter().map(|p| p.source).collect();
    Ok(Answer { answer, sources })
}
