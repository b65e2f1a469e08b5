//! Reads any `tokenizer.json`. BPE without marks at the ends of words is read here, into flat tables ([`bpe`]). The
//! `tokenizers` crate reads all other files.
mod bpe;
mod flat;
mod other;

use super::model::Model;
use super::pieces::{Pieces, Rule};
use super::pipeline::AddedTokens;
use super::{limits, Tokenizer};
use serde::de::IgnoredAny;
use serde::Deserialize;
use serde_json::Value;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::AddedToken;

/// A file, read.
struct Parts {
    added: Vec<(u32, AddedToken)>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    decoder: Option<DecoderWrapper>,
    model: Model,
    /// Tokens of the model: ids below this.
    size: u32,
}

/// The part of a file that decides which reader it needs.
#[derive(Deserialize)]
struct Head {
    model: ModelHead,
    #[serde(default)]
    normalizer: Value,
}

#[derive(Deserialize)]
struct ModelHead {
    #[serde(rename = "type")]
    kind: Option<String>,
    merges: Option<IgnoredAny>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
}

impl ModelHead {
    fn is_plain_bpe(&self) -> bool {
        let bpe = match &self.kind {
            Some(kind) => kind == "BPE",
            None => self.merges.is_some(), // old files do not name their kind
        };
        let marks = [&self.continuing_subword_prefix, &self.end_of_word_suffix];
        bpe && marks
            .iter()
            .all(|mark| mark.as_deref().unwrap_or("").is_empty())
    }
}

fn unreadable(error: impl std::fmt::Display) -> String {
    format!("it cannot be read as a tokenizer.json: {error}")
}

/// Every table of normalisations (`precompiled_charsmap`, in base64) that a normalizer has.
fn check_charsmaps(normalizer: &Value) -> Result<(), String> {
    match normalizer {
        Value::Array(items) => items.iter().try_for_each(check_charsmaps),
        Value::Object(fields) => fields.iter().try_for_each(|(name, value)| match value {
            Value::String(text) if name == "precompiled_charsmap" => {
                limits::check_charsmap(first_of_base64(text), text.len() / 4 * 3)
            }
            value => check_charsmaps(value),
        }),
        _ => Ok(()),
    }
}

/// The first four bytes of a base64 text. Characters that are not base64 count as zeros; the text is refused later.
fn first_of_base64(text: &str) -> [u8; 4] {
    let bits = text.bytes().take(6).fold(0u64, |bits, byte| {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => 0,
        };
        bits << 6 | u64::from(six)
    });
    ((bits >> 4) as u32).to_be_bytes()
}

pub fn load(json: &[u8]) -> Result<Tokenizer, String> {
    if json.len() > limits::JSON_BYTES {
        let (have, may) = (json.len(), limits::JSON_BYTES);
        return Err(format!("it has {have} bytes, more than {may}"));
    }
    limits::check_depth(json)?;
    let head: Head = serde_json::from_slice(json).map_err(unreadable)?;
    check_charsmaps(&head.normalizer)?;
    let mut parts = match head.model.is_plain_bpe() {
        true => bpe::read(json)?,
        false => other::read(json)?,
    };
    parts.added.sort_by_key(|t| t.0);
    let last = parts.added.last().map_or(0, |t| t.0.saturating_add(1));
    let size = parts.size.max(last);
    limits::check_size("it", size as usize)?;
    limits::check_gaps(size as usize, json.len())?;
    if size == 0 {
        return Err("it has no tokens".into());
    }

    let rule = Rule::of(parts.decoder.as_ref())?;
    let mut pieces = Pieces::new(&rule);
    let mut specials = vec![];
    let mut added = parts.added.iter().peekable();
    for id in 0..size {
        match added.next_if(|t| t.0 == id) {
            Some((_, token)) if token.special => {
                pieces.push(b"")?;
                specials.push((id, token.content.clone()));
            }
            Some((_, token)) => pieces.push(&rule.added_bytes(&token.content)?)?,
            None => match parts.model.name(id) {
                Some(name) => pieces.push(&rule.bytes(&name)?)?,
                None => pieces.push(b"")?,
            },
        }
        while added.next_if(|t| t.0 == id).is_some() {} // skips a token that the file names twice
    }
    Tokenizer::assemble(
        AddedTokens::new(parts.added)?,
        parts.normalizer,
        parts.pre_tokenizer,
        parts.model,
        pieces,
        specials,
    )
}
