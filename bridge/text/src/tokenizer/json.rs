//! Any `tokenizer.json`.
use super::pieces::{Pieces, Rule};
use super::{limits, Tokenizer};
use serde::Deserialize;
use serde_json::Value;
use tokenizers::models::ModelWrapper;

/// The part of a `tokenizer.json` that says which ids its added tokens have.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
}

/// The crate counts added tokens on from the end of the model's vocabulary, whatever ids the file gives them. Where
/// there is a gap, they are put into the model's own vocabulary, which keeps their ids.
fn read(json: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    let wrong = |e: String| format!("it cannot be read as a tokenizer.json: {e}");
    let head: Head = serde_json::from_slice(json).map_err(|e| wrong(e.to_string()))?;
    let parts = tokenizers::Tokenizer::from_bytes(json).map_err(|e| wrong(e.to_string()))?;
    let fits = |parts: &tokenizers::Tokenizer| {
        let mut all = head.added_tokens.iter();
        all.all(|token| parts.token_to_id(&token.content) == Some(token.id))
    };
    if fits(&parts) {
        return Ok(parts);
    }
    let mut value: Value = serde_json::from_slice(json).map_err(|e| wrong(e.to_string()))?;
    if let Some(vocabulary) = value
        .pointer_mut("/model/vocab")
        .and_then(Value::as_object_mut)
    {
        for token in &head.added_tokens {
            vocabulary.insert(token.content.clone(), token.id.into());
        }
    }
    let parts: tokenizers::Tokenizer =
        serde_json::from_value(value).map_err(|e| wrong(e.to_string()))?;
    match fits(&parts) {
        true => Ok(parts),
        false => Err("its added tokens have ids that its vocabulary does not leave free".into()),
    }
}

pub fn load(json: &[u8]) -> Result<Tokenizer, String> {
    if json.len() > limits::JSON_BYTES {
        return Err(format!(
            "it has {} bytes, more than {}",
            json.len(),
            limits::JSON_BYTES
        ));
    }
    let mut parts = read(json)?;
    if let ModelWrapper::BPE(bpe) = parts.get_model() {
        if bpe.dropout.is_some() {
            let mut bpe = bpe.clone();
            bpe.dropout = None; // chance is for training
            parts.with_model(bpe);
        }
    }

    let added = parts.get_added_tokens_decoder();
    limits::check_added(added.values().map(|t| t.content.as_str()))?;
    let mut tokens: Vec<(u32, String)> = parts
        .get_vocab(false)
        .into_iter()
        .filter(|(_, id)| !added.contains_key(id))
        .map(|(token, id)| (id, token))
        .collect();
    tokens.sort_unstable();
    tokens.dedup_by_key(|t| t.0);
    let mut added: Vec<_> = added.into_iter().collect();
    added.sort_unstable_by_key(|t| t.0);

    let rule = Rule::of(parts.get_decoder())?;
    let mut pieces = Pieces::new(&rule);
    let mut specials = vec![];
    let (mut tokens, mut added) = (tokens.into_iter().peekable(), added.into_iter().peekable());
    loop {
        let next = match (tokens.peek(), added.peek()) {
            (Some(a), Some(b)) => a.0.min(b.0),
            (Some(a), None) => a.0,
            (None, Some(b)) => b.0,
            (None, None) => break,
        };
        limits::check_size("the tokenizer", next as usize + 1)?;
        pieces.pad(next);
        if let Some((id, token)) = added.next_if(|t| t.0 == next) {
            if token.special {
                pieces.push(b"")?;
                specials.push((id, token.content));
            } else {
                pieces.push(&rule.added_bytes(&token.content)?)?;
            }
        } else if let Some((_, token)) = tokens.next_if(|t| t.0 == next) {
            pieces.push(&rule.bytes(&token)?)?;
        }
    }
    if pieces.len() == 0 {
        return Err("it has no tokens".into());
    }
    Ok(Tokenizer::assemble(parts, pieces, specials))
}
