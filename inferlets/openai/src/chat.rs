//! `/v1/chat/completions`

use crate::api_error::ApiError;
use crate::choices::{collect, generate, Delta, Usage};
use crate::forms::Form;
use crate::options::{alternatives, boolean, check_names, whole, Options};
use crate::prompt::{self, Said};
use crate::reply::{self, now, SharedEvents};
use crate::scored::Scored;
use crate::thinking;
use crate::tools;
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use inferlet::tools::Call;
use serde_json::{json, Map, Value};
use std::collections::HashMap;

type Parsed<T> = std::result::Result<T, ApiError>;

/// The most tokens of a choice if the request does not say. An answer also ends where the model's context ends.
const DEFAULT_TOKENS: usize = 1 << 15;
const MAX_TOKENS: u64 = 1 << 20;
const MAX_MESSAGES: usize = 4096;

/// Fields of the API that the engine does not serve, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("functions", "use 'tools'"),
    ("function_call", "use 'tool_choice'"),
    ("audio", "answers are texts"),
    ("web_search_options", "give the model a tool that searches"),
];

pub async fn serve(body: Map<String, Value>, respond: Responder) -> Result<()> {
    let (options, prompt) = match prepare(&body, &[]) {
        Ok(prepared) => prepared,
        Err(error) => return reply::fail(respond, error).await,
    };
    if options.stream {
        stream(options, prompt, respond).await
    } else {
        whole_answer(options, prompt, respond).await
    }
}

/// Reads a request. The other forms of conversations are translated to this one first: `places` are then the names that
/// their messages have in the request, for errors.
pub fn prepare(fields: &Map<String, Value>, places: &[String]) -> Parsed<(Options, Context)> {
    check_names(
        fields,
        &[
            "messages",
            "max_completion_tokens",
            "top_logprobs",
            "response_format",
            "tools",
            "tool_choice",
            "parallel_tool_calls",
            "modalities",
            "reasoning_effort",
            "chat_template_kwargs",
            "functions",
            "function_call",
            "audio",
            "web_search_options",
        ],
    )?;
    for (name, hint) in REFUSED {
        if fields.get(*name).is_some_and(|value| !value.is_null()) {
            return Err(ApiError::unsupported(name, hint));
        }
    }
    let modalities = fields.get("modalities").filter(|list| !list.is_null());
    if modalities.is_some_and(|list| *list != json!(["text"])) {
        return Err(ApiError::unsupported("modalities", "answers are texts"));
    }
    let limit = match (
        whole(fields, "max_completion_tokens", 1, MAX_TOKENS)?,
        whole(fields, "max_tokens", 1, MAX_TOKENS)?,
    ) {
        (Some(_), Some(_)) => {
            let text = "'max_tokens' is the old name of 'max_completion_tokens'; set only one";
            return Err(ApiError::invalid("max_tokens", text));
        }
        (newer, older) => newer.or(older),
    };
    let top = alternatives(fields, "top_logprobs")?;
    let logprobs = match (boolean(fields, "logprobs")?, top) {
        (true, top) => Some(top.unwrap_or(0)),
        (false, Some(_)) => {
            return Err(ApiError::invalid(
                "top_logprobs",
                "'top_logprobs' needs 'logprobs': true",
            ))
        }
        (false, None) => None,
    };
    let tools = tools::parse(fields)?;
    let mut options = Options::parse(
        fields,
        limit.map_or(DEFAULT_TOKENS, |limit| limit as usize),
        logprobs,
    )?;
    thinking::apply(fields, &options.model)?;
    options.form = Form::parse(fields, &options.model)?;
    if tools.must {
        options.form = Form::call_of(&tools.callable, &options.model)?;
    }
    options.has_limit = limit.is_some();
    options.splits_thoughts = true;
    let mut conversation = Vec::new();
    if !tools.told.is_empty() {
        conversation.push(Said::Tools(tools.told.clone()));
    }
    options.tools = tools;
    let messages = match fields.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => {
            return Err(ApiError::invalid(
                "messages",
                "'messages' must be a list with at least one message",
            ))
        }
    };
    if messages.len() > MAX_MESSAGES {
        return Err(ApiError::invalid(
            "messages",
            format!("'messages' has more than {MAX_MESSAGES} messages"),
        ));
    }
    let mut called = HashMap::new(); // id of a call → the call
    for (index, message) in messages.iter().enumerate() {
        let place = places.get(index).cloned();
        let place = place.unwrap_or_else(|| format!("messages[{index}]"));
        conversation.push(said(message, &place, &mut called)?);
    }
    let mut context = Context::new(&options.model).map_err(ApiError::engine)?;
    prompt::write(&mut context, &conversation)
        .map_err(|error| ApiError::invalid("tools", error))?;
    Ok((options, context))
}

fn said(message: &Value, place: &str, called: &mut HashMap<String, Call>) -> Parsed<Said> {
    let calls = match &message["tool_calls"] {
        Value::Null => Some(Vec::new()),
        Value::Array(calls) => calls.iter().map(call_of).collect(),
        _ => None,
    };
    let Some(calls) = calls else {
        let text = "each call must have an id and a function with the texts name and arguments, \
                    and the arguments must be a JSON object";
        return Err(ApiError::invalid(&format!("{place}.tool_calls"), text));
    };
    let refusal = message["refusal"].as_str();
    let mut text = match &message["content"] {
        Value::Null if !calls.is_empty() || refusal.is_some() => String::new(),
        content => text_of(content, place)?,
    };
    text += refusal.unwrap_or_default();
    for call in &calls {
        called.insert(call.id.clone(), call.clone());
    }
    match message["role"].as_str() {
        Some("system" | "developer") => Ok(Said::System(text)),
        Some("user") => Ok(Said::User(text)),
        Some("assistant") => Ok(Said::Assistant(text, calls)),
        Some("tool") => {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(call) = called.get(id) else {
                let text = format!("no call before this message has the id '{id}'");
                return Err(ApiError::invalid(&format!("{place}.tool_call_id"), text));
            };
            Ok(Said::Answer(call.clone(), text))
        }
        Some(role) => {
            let text = format!(
                "'{role}' is not one of ['system', 'developer', 'user', 'assistant', 'tool']"
            );
            Err(ApiError::invalid(&format!("{place}.role"), text))
        }
        None => Err(ApiError::invalid(
            &format!("{place}.role"),
            "each message needs a role",
        )),
    }
}

/// Reads a call of an earlier turn. Empty arguments, and null, stand for none.
fn call_of(call: &Value) -> Option<Call> {
    let function = &call["function"];
    let name = function["name"].as_str().filter(|name| !name.is_empty())?;
    let arguments = function["arguments"].as_str()?;
    let valid = match serde_json::from_str::<Value>(arguments) {
        Ok(value) => value.is_object() || value.is_null(),
        Err(_) => arguments.trim().is_empty(),
    };
    valid.then_some(Call {
        name: name.into(),
        arguments: arguments.into(),
        id: call["id"].as_str()?.into(),
    })
}

/// A text, or a list of parts that are texts. A refusal is what the model said earlier.
fn text_of(content: &Value, place: &str) -> Parsed<String> {
    let kinds: &[(&str, &str)] = &[("text", "text"), ("refusal", "refusal")];
    join_parts(content, kinds, &format!("{place}.content"))
}

/// Reads content: a text, or a list of parts. `kinds` are the types of parts that are texts, and the fields with these.
pub fn join_parts(content: &Value, kinds: &[(&str, &str)], place: &str) -> Parsed<String> {
    let parts = match content {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => {
            let text = format!(
                "the content must be a text or a list of parts of the type '{}'",
                kinds[0].0
            );
            return Err(ApiError::invalid(place, text));
        }
    };
    let mut all = String::new();
    for part in parts {
        let known = kinds.iter().find(|(kind, _)| part["type"] == *kind);
        match known.and_then(|(_, field)| part[*field].as_str()) {
            Some(text) => all.push_str(text),
            None if known.is_none() && part["type"].is_string() => {
                let text = format!(
                    "a part of the type {} is not served: the models of this server read texts only",
                    part["type"]
                );
                return Err(ApiError::invalid(place, text));
            }
            None => {
                let text = "each part must have a type, and a text in the field of that type";
                return Err(ApiError::invalid(place, text));
            }
        }
    }
    Ok(all)
}

/// The log-probabilities of tokens in the form of the API.
pub fn scores(options: &Options, tokens: &[Scored]) -> Value {
    if options.logprobs.is_none() {
        return Value::Null;
    }
    let content: Vec<Value> = tokens
        .iter()
        .map(|scored| {
            let (text, bytes) = options.word(scored.token);
            let top: Vec<Value> = scored
                .top
                .iter()
                .map(|(token, logprob)| {
                    let (text, bytes) = options.word(*token);
                    json!({ "token": text, "logprob": logprob, "bytes": bytes })
                })
                .collect();
            json!({ "token": text, "logprob": scored.logprob, "bytes": bytes, "top_logprobs": top })
        })
        .collect();
    json!({ "content": content, "refusal": null })
}

fn head(options: &Options, object: &str) -> Map<String, Value> {
    let head = json!({
        "id": format!("chatcmpl-{}", runtime::instance_id()),
        "object": object,
        "created": now(),
        "model": options.name,
    });
    head.as_object().cloned().unwrap_or_default()
}

async fn whole_answer(options: Options, prompt: Context, respond: Responder) -> Result<()> {
    let (choices, usage) = match collect(&options, vec![prompt]).await {
        Ok(collected) => collected,
        Err(error) => return reply::fail(respond, ApiError::engine(error)).await,
    };
    let list: Vec<Value> = choices
        .iter()
        .enumerate()
        .map(|(index, choice)| {
            let mut message =
                json!({ "role": "assistant", "content": choice.text, "refusal": null });
            let is_call = matches!(options.form, Form::Call(_)); // which may have broken off
            if choice.text.is_empty() && (is_call || !choice.calls.is_empty()) {
                message["content"] = Value::Null;
            }
            if !choice.calls.is_empty() {
                message["tool_calls"] = tools::json(&choice.calls, index, false);
            }
            // The official API hides thoughts. Servers of open models return them under this name.
            if !choice.thought.is_empty() {
                message["reasoning_content"] = json!(choice.thought);
            }
            json!({
                "index": index,
                "message": message,
                "logprobs": scores(&options, &choice.tokens),
                "finish_reason": choice.finish,
            })
        })
        .collect();
    let mut answer = head(&options, "chat.completion");
    answer.insert("choices".into(), json!(list));
    answer.insert("usage".into(), usage.json());
    reply::send(respond, &Value::Object(answer)).await
}

async fn stream(options: Options, prompt: Context, respond: Responder) -> Result<()> {
    let head = head(&options, "chat.completion.chunk");
    let chunk = |choices: Value, usage: Option<&Usage>| {
        let mut chunk = head.clone();
        chunk.insert("choices".into(), choices);
        if options.include_usage {
            chunk.insert("usage".into(), usage.map_or(Value::Null, Usage::json));
        }
        Value::Object(chunk)
    };
    let choice = |index: usize, delta: Value, logprobs: Value, finish: Option<&str>| json!([{ "index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish }]);
    let begin = |index: usize| {
        let delta = json!({ "role": "assistant", "content": "", "refusal": null });
        chunk(choice(index, delta, Value::Null, None), None)
    };
    let events = &SharedEvents::new(respond, (0..options.choices).map(begin).collect());
    let take = |delta: Delta| {
        let mut chunks = Vec::new();
        if !delta.thought.is_empty() {
            let said = json!({ "reasoning_content": delta.thought });
            chunks.push(chunk(choice(delta.choice, said, Value::Null, None), None));
        }
        if !delta.text.is_empty() || !delta.tokens.is_empty() {
            let said = json!({ "content": delta.text });
            chunks.push(chunk(
                choice(delta.choice, said, scores(&options, &delta.tokens), None),
                None,
            ));
        }
        if !delta.calls.is_empty() {
            let calls = tools::json(&delta.calls, delta.choice, true);
            let said = json!({ "tool_calls": calls });
            chunks.push(chunk(choice(delta.choice, said, Value::Null, None), None));
        }
        if delta.finish.is_some() {
            chunks.push(chunk(
                choice(delta.choice, json!({}), Value::Null, delta.finish),
                None,
            ));
        }
        async move { events.send_all(&chunks).await }
    };
    let generated = generate(&options, vec![prompt], take).await;
    let last = match generated.map_err(ApiError::engine) {
        Ok(usage) if options.include_usage => vec![chunk(json!([]), Some(&usage))],
        Ok(_) => Vec::new(),
        Err(error) => match events.unused() {
            Some(respond) => return reply::fail(respond, error).await,
            None => vec![error.json()],
        },
    };
    events.finish(&last).await
}
