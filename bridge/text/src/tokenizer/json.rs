//! Any `tokenizer.json`.
use super::pieces::{Pieces, Rule};
use super::{limits, Tokenizer};
use tokenizers::models::ModelWrapper;

pub fn load(json: &[u8]) -> Result<Tokenizer, String> {
    if json.len() > limits::JSON_BYTES {
        return Err(format!(
            "it has {} bytes, more than {}",
            json.len(),
            limits::JSON_BYTES
        ));
    }
    let mut parts = tokenizers::Tokenizer::from_bytes(json)
        .map_err(|e| format!("it cannot be read as a tokenizer.json: {e}"))?;
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
                pieces.push(token.content.as_bytes())?;
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
