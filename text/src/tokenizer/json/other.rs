//! Reads files whose model the `tokenizers` crate runs.
use super::{unreadable, Parts};
use crate::tokenizer::model::Model;
use serde::Deserialize;
use serde_json::Value;
use tokenizers::models::ModelWrapper;

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

pub fn read(json: &[u8]) -> Result<Parts, String> {
    let mut parts = with_ids(json)?;
    if let ModelWrapper::BPE(bpe) = parts.get_model() {
        if bpe.dropout.is_some() {
            let mut bpe = bpe.clone();
            bpe.dropout = None; // it is for training
            parts.with_model(bpe);
        }
    }
    let ids = parts.get_vocab(false).into_values();
    Ok(Parts {
        added: parts.get_added_tokens_decoder().into_iter().collect(),
        normalizer: parts.get_normalizer().cloned(),
        pre_tokenizer: parts.get_pre_tokenizer().cloned(),
        decoder: parts.get_decoder().cloned(),
        size: ids.max().map_or(0, |id| id.saturating_add(1)),
        model: Model::Other(Box::new(parts)),
    })
}

/// The crate counts added tokens on from the end of the model's vocabulary, whatever ids the file gives them. Where
/// there is a gap, they are put into the model's own vocabulary, which keeps their ids.
fn with_ids(json: &[u8]) -> Result<tokenizers::Tokenizer, String> {
    let head: Head = serde_json::from_slice(json).map_err(unreadable)?;
    let parts = tokenizers::Tokenizer::from_bytes(json).map_err(unreadable)?;
    let fits = |parts: &tokenizers::Tokenizer| {
        let mut all = head.added_tokens.iter();
        all.all(|token| parts.token_to_id(&token.content) == Some(token.id))
    };
    if fits(&parts) {
        return Ok(parts);
    }
    let mut value: Value = serde_json::from_slice(json).map_err(unreadable)?;
    if let Some(vocabulary) = value
        .pointer_mut("/model/vocab")
        .and_then(Value::as_object_mut)
    {
        for token in &head.added_tokens {
            vocabulary.insert(token.content.clone(), token.id.into());
        }
    }
    let parts = serde_json::from_value(value).map_err(unreadable)?;
    match fits(&parts) {
        true => Ok(parts),
        false => Err("its added tokens have ids that its vocabulary uses already".into()),
    }
}
