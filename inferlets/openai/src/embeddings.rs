//! `/v1/embeddings`: texts as vectors of length 1.
//!
//! A vector is the mean of the hidden states of all tokens of its text, after the model's last norm.

use crate::api_error::ApiError;
use crate::options::{check_types, find_model, model_name, vocabulary_size, whole};
use crate::reply;
use base64::prelude::{Engine, BASE64_STANDARD};
use inferlet::adapter::Adapter;
use inferlet::futures::{stream, StreamExt, TryStreamExt};
use inferlet::http::Responder;
use inferlet::model::Model;
use inferlet::pie::core::inference::SlotOutput;
use inferlet::prelude::*;
use serde_json::{json, Map, Value};
use std::cell::OnceCell;

type Parsed<T> = std::result::Result<T, ApiError>;

/// The most texts of a request, and the most tokens of all of them, as in the API.
const MAX_INPUTS: usize = 2048;
const MAX_TOKENS: usize = 300_000;
/// The most tokens of a text, as of the API's own models.
const MAX_INPUT_TOKENS: usize = 8192;
/// How many texts are computed at the same time, and how many hidden states of each are in memory.
const AT_ONCE: usize = 16;
const ROWS_AT_ONCE: usize = 512;
const FIELDS: &[&str] = &["model", "input", "encoding_format", "dimensions", "user"];

struct Asked {
    name: String,
    model: Model,
    adapter: Option<Adapter>,
    inputs: Vec<Vec<u32>>,
    /// How many numbers of a vector are wanted. None: all of them.
    dimensions: Option<usize>,
    as_base64: bool,
}

pub async fn serve(body: Map<String, Value>, respond: Responder) -> Result<()> {
    let asked = match prepare(&body) {
        Ok(asked) => asked,
        Err(error) => return reply::fail(respond, error).await,
    };
    match answer(&asked).await {
        Ok(answer) => reply::send(respond, &answer).await,
        Err(error) => reply::fail(respond, error).await,
    }
}

fn prepare(fields: &Map<String, Value>) -> Parsed<Asked> {
    for name in fields.keys().map(String::as_str) {
        if !FIELDS.contains(&name) {
            let text = format!("Unrecognized request argument supplied: {name}");
            return Err(ApiError::invalid(name, text));
        }
    }
    check_types(fields)?;
    let name = model_name(fields)?;
    let (model, adapter) = find_model(&name)?;
    let as_base64 = match fields.get("encoding_format") {
        None | Some(Value::Null) => false,
        Some(Value::String(format)) if format == "float" => false,
        Some(Value::String(format)) if format == "base64" => true,
        Some(other) => {
            let text = format!("'encoding_format' must be 'float' or 'base64', not {other}");
            return Err(ApiError::invalid("encoding_format", text));
        }
    };
    let dimensions = whole(fields, "dimensions", 1, 1 << 20)?;
    let inputs = inputs(&model, fields.get("input").unwrap_or(&Value::Null))?;
    Ok(Asked {
        name,
        model,
        adapter,
        inputs,
        dimensions: dimensions.map(|count| count as usize),
        as_base64,
    })
}

/// The tokens of each text.
fn inputs(model: &Model, input: &Value) -> Parsed<Vec<Vec<u32>>> {
    let wrong = |text: String| ApiError::invalid("input", text);
    let vocabulary = OnceCell::new();
    let size = || *vocabulary.get_or_init(|| vocabulary_size(model));
    let one = |item: &Value| match item {
        Value::String(text) => Ok(model.tokenizer().encode(text)),
        Value::Array(ids) => tokens(size(), ids),
        _ => Err(wrong(
            "'input' must be a text, a list of texts, a list of tokens or a list of these".into(),
        )),
    };
    let inputs = match input {
        Value::Array(items) if items.iter().any(|item| !item.is_number()) => {
            if items.len() > MAX_INPUTS {
                return Err(wrong(format!("'input' has more than {MAX_INPUTS} texts")));
            }
            items.iter().map(one).collect::<Parsed<Vec<_>>>()?
        }
        single => vec![one(single)?],
    };
    for tokens in &inputs {
        if tokens.is_empty() {
            return Err(wrong("'input' cannot be an empty text or list".into()));
        }
        if tokens.len() > MAX_INPUT_TOKENS {
            let text = format!(
                "a text of 'input' has {} tokens; the most are {MAX_INPUT_TOKENS}",
                tokens.len()
            );
            return Err(wrong(text).with_code("context_length_exceeded"));
        }
    }
    let all: usize = inputs.iter().map(Vec::len).sum();
    if all > MAX_TOKENS {
        let text = format!("'input' has {all} tokens; the most of a request are {MAX_TOKENS}");
        return Err(wrong(text));
    }
    Ok(inputs)
}

fn tokens(size: u32, ids: &[Value]) -> Parsed<Vec<u32>> {
    let id = |value: &Value| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.filter(|id| *id < size).ok_or_else(|| {
            let text = format!("{value} is not a token of this model; it has {size}");
            ApiError::invalid("input", text)
        })
    };
    ids.iter().map(id).collect()
}

async fn answer(asked: &Asked) -> Parsed<Value> {
    let vectors: Vec<Vec<f32>> = stream::iter(&asked.inputs)
        .map(|tokens| embed(asked, tokens))
        .buffered(AT_ONCE)
        .try_collect()
        .await
        .map_err(ApiError::engine)?;
    let mut data = Vec::new();
    for (index, mut vector) in vectors.into_iter().enumerate() {
        let size = vector.len();
        if let Some(dimensions) = asked.dimensions {
            if dimensions > size {
                let text = format!("'dimensions' must be at most {size}, the size of the model");
                return Err(ApiError::invalid("dimensions", text));
            }
            vector.truncate(dimensions);
        }
        normalise(&mut vector);
        let embedding = match asked.as_base64 {
            true => {
                let bytes: Vec<u8> = vector.iter().flat_map(|n| n.to_le_bytes()).collect();
                Value::String(BASE64_STANDARD.encode(bytes))
            }
            false => json!(vector),
        };
        data.push(json!({ "object": "embedding", "index": index, "embedding": embedding }));
    }
    let count: usize = asked.inputs.iter().map(Vec::len).sum();
    Ok(json!({
        "object": "list",
        "data": data,
        "model": asked.name,
        "usage": { "prompt_tokens": count, "total_tokens": count },
    }))
}

/// The sum of the hidden states of all tokens. It has the direction of their mean.
async fn embed(asked: &Asked, tokens: &[u32]) -> Result<Vec<f32>> {
    let mut context = Context::new(&asked.model)?;
    let mut sum: Vec<f32> = Vec::new();
    for piece in tokens.chunks(ROWS_AT_ONCE) {
        let mut pass = context.forward();
        pass.input(piece);
        if let Some(adapter) = &asked.adapter {
            pass.adapter(adapter);
        }
        let rows: Vec<u32> = (0..piece.len() as u32).collect();
        pass.sample(&rows, Sampler::Embedding);
        let output = pass.execute().await?;
        for slot in &output.raw().slots {
            let SlotOutput::Embedding(packed) = slot else {
                return Err("the engine gave no hidden states".into());
            };
            sum.resize(packed.len() / 4, 0.0);
            for (total, bytes) in sum.iter_mut().zip(packed.chunks_exact(4)) {
                *total += f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            }
        }
    }
    Ok(sum)
}

/// Gives a vector the length 1. A vector of zeros stays as it is.
fn normalise(vector: &mut [f32]) {
    let length = vector
        .iter()
        .map(|n| f64::from(*n).powi(2))
        .sum::<f64>()
        .sqrt();
    if length > 0.0 {
        for number in vector {
            *number = (f64::from(*number) / length) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_get_the_length_one() {
        let mut vector = [3.0, -4.0];
        normalise(&mut vector);
        assert_eq!(vector, [0.6, -0.8]);
        let mut nothing = [0.0; 3];
        normalise(&mut nothing);
        assert_eq!(nothing, [0.0; 3]);
    }
}
