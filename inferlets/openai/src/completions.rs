//! `/v1/completions`: the model continues a text.

use crate::api_error::ApiError;
use crate::choices::{collect, generate, Delta, Usage};
use crate::options::{alternatives, boolean, check_names, whole, Options};
use crate::reply::{self, now, Events, SharedEvents};
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Map, Value};

const DEFAULT_TOKENS: usize = 16;
const MAX_TOKENS: u64 = 1 << 20;

struct Completion {
    options: Options,
    prompt: Context,
    /// The prompt itself, if the answer repeats it.
    echo: String,
}

pub async fn serve(body: Map<String, Value>, respond: Responder) -> Result<()> {
    let completion = match prepare(&body) {
        Ok(prepared) => prepared,
        Err(error) => return reply::fail(respond, error).await,
    };
    if completion.options.stream {
        stream(completion, respond).await
    } else {
        whole_answer(completion, respond).await
    }
}

fn prepare(fields: &Map<String, Value>) -> std::result::Result<Completion, ApiError> {
    check_names(fields, &["prompt", "echo", "suffix", "best_of"])?;
    if fields.get("suffix").is_some_and(|suffix| !suffix.is_null()) {
        return Err(ApiError::invalid(
            "suffix",
            "'suffix' is not supported; leave it out",
        ));
    }
    if whole(fields, "best_of", 1, 20)?.unwrap_or(1) > 1 {
        return Err(ApiError::invalid(
            "best_of",
            "'best_of' is not supported; use 'n'",
        ));
    }
    if alternatives(fields, "logprobs")?.is_some() {
        return Err(ApiError::invalid(
            "logprobs",
            "'logprobs' is supported by /v1/chat/completions only",
        ));
    }
    let limit = whole(fields, "max_tokens", 1, MAX_TOKENS)?;
    let options = Options::parse(
        fields,
        limit.map_or(DEFAULT_TOKENS, |limit| limit as usize),
        None,
    )?;
    let tokenizer = options.model.tokenizer();
    let wrong = || {
        ApiError::invalid(
            "prompt",
            "'prompt' must be one text, or one list of token ids",
        )
    };
    let tokens: Vec<u32> = match fields.get("prompt") {
        Some(Value::String(text)) => tokenizer.encode(text),
        Some(Value::Array(list)) => match list.as_slice() {
            [Value::String(text)] => tokenizer.encode(text),
            numbers => {
                let ids: Option<Vec<u32>> = numbers
                    .iter()
                    .map(|id| id.as_u64().and_then(|id| u32::try_from(id).ok()))
                    .collect();
                ids.ok_or_else(wrong)?
            }
        },
        _ => return Err(wrong()),
    };
    if tokens.is_empty() {
        return Err(ApiError::invalid("prompt", "the prompt is empty"));
    }
    let echo = match boolean(fields, "echo")? {
        true => tokenizer
            .decode(&tokens)
            .map_err(|error| ApiError::invalid("prompt", error))?,
        false => String::new(),
    };
    let mut prompt = Context::new(&options.model).map_err(ApiError::engine)?;
    prompt.append(&tokens);
    Ok(Completion {
        options,
        prompt,
        echo,
    })
}

fn head(options: &Options) -> Map<String, Value> {
    let head = json!({
        "id": format!("cmpl-{}", runtime::instance_id()),
        "object": "text_completion",
        "created": now(),
        "model": options.name,
    });
    head.as_object().cloned().unwrap_or_default()
}

fn choice(index: usize, text: &str, finish: Option<&str>) -> Value {
    json!({ "index": index, "text": text, "logprobs": null, "finish_reason": finish })
}

async fn whole_answer(completion: Completion, respond: Responder) -> Result<()> {
    let Completion {
        options,
        prompt,
        echo,
    } = completion;
    let (choices, usage) = match collect(&options, prompt).await {
        Ok(collected) => collected,
        Err(error) => return reply::fail(respond, ApiError::engine(error)).await,
    };
    let list = choices
        .iter()
        .enumerate()
        .map(|(i, found)| choice(i, &format!("{echo}{}", found.text), Some(found.finish)));
    let mut answer = head(&options);
    answer.insert("choices".into(), list.collect::<Vec<_>>().into());
    answer.insert("usage".into(), usage.json());
    reply::send(respond, &Value::Object(answer)).await
}

async fn stream(completion: Completion, respond: Responder) -> Result<()> {
    let Completion {
        options,
        prompt,
        echo,
    } = completion;
    let head = head(&options);
    let chunk = |choices: Value, usage: Option<&Usage>| {
        let mut chunk = head.clone();
        chunk.insert("choices".into(), choices);
        if options.include_usage {
            chunk.insert("usage".into(), usage.map_or(Value::Null, Usage::json));
        }
        Value::Object(chunk)
    };
    let mut first = Events::start(respond)?;
    if !echo.is_empty() {
        for index in 0..options.choices {
            first
                .send(&chunk(json!([choice(index, &echo, None)]), None))
                .await?;
        }
    }
    let events = &SharedEvents::new(first);
    let take = |delta: Delta| {
        let chunk = chunk(
            json!([choice(delta.choice, &delta.text, delta.finish)]),
            None,
        );
        async move { events.send_all(&[chunk]).await }
    };
    let generated = generate(&options, prompt, take).await;
    let last = match generated {
        Ok(usage) if options.include_usage => vec![chunk(json!([]), Some(&usage))],
        Ok(_) => Vec::new(),
        Err(error) => vec![ApiError::engine(error).json()],
    };
    events.finish(&last).await
}
