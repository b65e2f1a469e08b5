//! Templates in small. Real ones, against Python's Jinja, are in tests/templates.
mod bad;
mod speech;
mod text;

use super::chat::{ChatTemplate, Setup};
use super::specials::{Encoder, Specials};
use super::turns::{Kind, Turn};
use serde_json::{json, Map, Value as Json};

/// One token a character; special tokens from here on.
const SPECIAL: u32 = 2_000_000;
const NAMES: [&str; 6] = [
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "[INST]",
    "[/INST]",
];

fn specials() -> Vec<(String, u32)> {
    NAMES
        .iter()
        .zip(SPECIAL..)
        .map(|(name, id)| (name.to_string(), id))
        .collect()
}

struct Letters(Specials);

impl Encoder for Letters {
    fn encode(&self, text: &str, specials: bool) -> Result<Vec<u32>, String> {
        let (mut tokens, mut at) = (Vec::new(), 0);
        while at < text.len() {
            match self.0.at_start(&text[at..]).filter(|_| specials) {
                Some((length, id)) => {
                    tokens.push(id);
                    at += length;
                }
                None => {
                    let letter = text[at..].chars().next().expect("there is more");
                    tokens.push(letter as u32);
                    at += letter.len_utf8();
                }
            }
        }
        Ok(tokens)
    }
}

/// Special tokens in ‹›.
fn shown(tokens: &[u32]) -> String {
    let letter = |token: &u32| match token.checked_sub(SPECIAL) {
        Some(special) => format!("‹{}›", NAMES[special as usize]),
        None => char::from_u32(*token).expect("it was a letter").to_string(),
    };
    tokens.iter().map(letter).collect()
}

fn variables() -> Map<String, Json> {
    let map = json!({"bos_token": "<s>", "eos_token": "</s>"});
    map.as_object().cloned().expect("it is one")
}

fn load(source: &str) -> Result<ChatTemplate, String> {
    ChatTemplate::new(Setup {
        source: Some(source.into()),
        specials: specials(),
        variables: variables(),
        stops: vec![SPECIAL + 1],
        now: Some(1_736_936_430),
        encoder: Box::new(Letters(Specials::new(specials()))),
        encoder_is_plain: false,
    })
}

fn say(chat: &ChatTemplate, before: &[Kind], turns: &[Turn]) -> String {
    match chat.extend(before, turns) {
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
