//! Templates in small. Real ones, against Python's Jinja, are in tests/templates.
mod bad;
mod calls;
mod histories;
mod options;
mod speech;
mod text;
mod thoughts;

use super::chat::{ChatTemplate, Setup};
use super::options::Options;
use super::turns::{Turn, TurnKind};
use crate::tokenizer::Tokenizer;
use serde_json::{json, Map, Value as Json};
use std::sync::Arc;

/// Each byte is one token; the ids of special tokens begin here.
const SPECIAL: u32 = 256;
const NAMES: [&str; 6] = [
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "[INST]",
    "[/INST]",
];

fn bytes(specials: &[&str]) -> Arc<Tokenizer> {
    Arc::new(Tokenizer::from_bytes(specials).unwrap())
}

/// Special tokens in ‹›.
fn shown(tokens: &[u32]) -> String {
    let mut text = Vec::new();
    for token in tokens {
        match token.checked_sub(SPECIAL) {
            Some(special) => text.extend(format!("‹{}›", NAMES[special as usize]).bytes()),
            None => text.push(*token as u8),
        }
    }
    String::from_utf8(text).expect("whole characters were encoded")
}

fn variables() -> Map<String, Json> {
    let map = json!({"bos_token": "<s>", "eos_token": "</s>"});
    map.as_object().cloned().expect("it is one")
}

fn load(source: &str) -> Result<ChatTemplate, String> {
    ChatTemplate::new(Setup {
        source: Some(source.into()),
        variables: variables(),
        stops: vec![SPECIAL + 1],
        now: Some(1_736_936_430),
        tokenizer: bytes(&NAMES),
    })
}

fn say(chat: &ChatTemplate, before: &[TurnKind], turns: &[Turn]) -> String {
    match chat.extend(before, turns, &Options::new()) {
        Ok(tokens) => shown(&tokens),
        Err(error) => format!("error: {error}"),
    }
}

fn user(text: &str) -> Turn {
    Turn::User(text.into())
}

fn system(text: &str) -> Turn {
    Turn::System(text.into())
}

fn assistant(text: &str) -> Turn {
    Turn::Assistant(text.into())
}

fn answer(name: &str, id: &str, value: &str) -> Turn {
    Turn::Answer {
        name: name.into(),
        id: id.into(),
        value: value.into(),
    }
}
