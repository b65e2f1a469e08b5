//! `/v1/messages`, in Anthropic's form. A request is translated to one of `/v1/chat/completions`.
//!
//! Clients of this API send new fields and new kinds of tools before any other server knows them. So a field that is not
//! read changes nothing, null stands for a field that is absent, and tools that only Anthropic can run are left out.

mod stream;
mod turns;

use crate::api_error::ApiError;
use crate::chat;
use crate::choices::{collect, length, Choice, Usage};
use crate::options::{number, whole, Options, MAX_STOPS};
use crate::reply;
use crate::tools;
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Map, Value};
use turns::{turns, Turns};

type Fields = Map<String, Value>;
type Parsed<T> = std::result::Result<T, ApiError>;

const MAX_TOKENS: u64 = 1 << 20;
const MAX_TOP_K: u64 = 1 << 20;
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

pub async fn serve(mut body: Fields, respond: Responder) -> Result<()> {
    body.retain(|_, value| !value.is_null());
    let (options, prompt) = match prepare(&body) {
        Ok(prepared) => prepared,
        Err(error) => return fail(respond, error).await,
    };
    let shows_thoughts = matches!(
        body.get("thinking")
            .and_then(|thinking| thinking["type"].as_str()),
        Some("enabled" | "adaptive")
    );
    if options.stream {
        return stream::serve(options, prompt, shows_thoughts, respond).await;
    }
    match collect(&options, vec![prompt]).await {
        Ok((mut choices, usage)) => {
            if !shows_thoughts {
                choices[0].thought.clear();
            }
            reply::send(respond, &message(&options, &choices[0], &usage)).await
        }
        Err(error) => fail(respond, ApiError::engine(error)).await,
    }
}

/// `/v1/messages/count_tokens`
pub async fn count_tokens(mut body: Fields, respond: Responder) -> Result<()> {
    body.retain(|_, value| !value.is_null());
    body.insert("max_tokens".into(), json!(1));
    match prepare(&body) {
        Ok((_, prompt)) => reply::send(respond, &json!({ "input_tokens": length(&prompt) })).await,
        Err(error) => fail(respond, error).await,
    }
}

pub async fn fail(respond: Responder, error: ApiError) -> Result<()> {
    reply::send(respond.status(error.status), &error.in_messages_form()).await
}

/// Reads a request in which no field is null.
fn prepare(fields: &Fields) -> Parsed<(Options, Context)> {
    if whole(fields, "max_tokens", 1, MAX_TOKENS)?.is_none() {
        return Err(ApiError::invalid("max_tokens", "Field required"));
    }
    let top_k = whole(fields, "top_k", 0, MAX_TOP_K)?.filter(|k| *k > 0);
    let stops = stop_sequences(fields)?;
    let mut chat = Fields::new();
    for name in ["model", "max_tokens", "stream", "temperature", "top_p"] {
        if let Some(value) = fields.get(name) {
            chat.insert(name.into(), value.clone());
        }
    }
    number(fields, "temperature", 0.0, 1.0)?;
    let Turns {
        messages,
        places,
        begun,
    } = turns(fields)?;
    chat.insert("messages".into(), messages.into());
    if let Some(list) = fields.get("tools") {
        chat.insert("tools".into(), tools_of(list)?);
    }
    if let Some(choice) = fields.get("tool_choice") {
        let choice_of_chat = tool_choice(choice)?;
        let none_left = chat.get("tools").is_some_and(|tools| *tools == json!([]));
        if none_left && choice_of_chat == "required" {
            let text = "this server runs no tools, and leaves out those that have no input_schema";
            return Err(ApiError::invalid("tool_choice", text));
        }
        chat.insert("tool_choice".into(), choice_of_chat);
        let alone = choice["disable_parallel_tool_use"] == true;
        chat.insert("parallel_tool_calls".into(), json!(!alone));
    }
    if let Some(effort) = effort(fields)? {
        chat.insert("reasoning_effort".into(), effort.into());
    }
    if let Some(form) = form(fields)? {
        chat.insert("response_format".into(), form);
    }
    let names = [("response_format", "output_config.format")];
    let prepared = chat::prepare(&chat, &places);
    let (mut options, mut prompt) = prepared.map_err(|error| error.rename(&names))?;
    if !begun.is_empty() {
        prompt.append(&options.model.tokenizer().encode(&begun));
    }
    options.stops = stops;
    options.top_k = top_k.map(|k| k as u32);
    Ok((options, prompt))
}

/// Whether the model thinks, and how much, as chat completions say it. None if the request does not say.
fn effort(fields: &Fields) -> Parsed<Option<&str>> {
    let config = fields.get("output_config");
    let effort = config.and_then(|config| config["effort"].as_str());
    let effort = effort.filter(|effort| EFFORTS.contains(effort));
    let Some(thinking) = fields.get("thinking") else {
        return Ok(effort);
    };
    match thinking["type"].as_str() {
        Some("disabled") => Ok(Some("none")),
        Some("enabled" | "adaptive") => Ok(Some(effort.unwrap_or("medium"))),
        _ => {
            let text = "the type must be enabled, adaptive or disabled";
            Err(ApiError::invalid("thinking", text))
        }
    }
}

/// Reads the JSON Schema that an answer must match, if there is one.
fn form(fields: &Fields) -> Parsed<Option<Value>> {
    let of_config = fields
        .get("output_config")
        .and_then(|config| config.get("format"));
    let of_config = of_config.filter(|format| !format.is_null());
    let Some(format) = of_config.or(fields.get("output_format")) else {
        return Ok(None);
    };
    if format["type"] != "json_schema" {
        let text = "the type must be json_schema";
        return Err(ApiError::invalid("output_config.format", text));
    }
    let schema = json!({ "schema": format["schema"] });
    Ok(Some(
        json!({ "type": "json_schema", "json_schema": schema }),
    ))
}

fn stop_sequences(fields: &Fields) -> Parsed<Vec<String>> {
    let wrong = || {
        let text = format!("must be a list of at most {MAX_STOPS} texts that are not empty");
        ApiError::invalid("stop_sequences", text)
    };
    match fields.get("stop_sequences") {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= MAX_STOPS => list
            .iter()
            .map(|stop| stop.as_str().filter(|stop| !stop.is_empty()))
            .map(|stop| stop.map(str::to_string).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

/// Translates the tools. Those that have a type of their own, such as `web_search_20250305`, are run by Anthropic's
/// servers or have schemas that only its models know: they are left out.
fn tools_of(list: &Value) -> Parsed<Value> {
    let wrong = || ApiError::invalid("tools", "must be a list of tools with a name and a schema");
    let list = list.as_array().ok_or_else(wrong)?;
    let own = |tool: &&Value| matches!(tool["type"].as_str(), None | Some("custom"));
    let one = |tool: &Value| {
        if !tool["input_schema"].is_object() {
            return Err(wrong());
        }
        Ok(json!({ "type": "function", "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
        }}))
    };
    let own = list.iter().filter(own);
    Ok(Value::Array(own.map(one).collect::<Parsed<_>>()?))
}

fn tool_choice(choice: &Value) -> Parsed<Value> {
    match choice["type"].as_str() {
        Some("auto") => Ok(json!("auto")),
        Some("none") => Ok(json!("none")),
        Some("any") => Ok(json!("required")),
        Some("tool") => Ok(json!({ "type": "function", "function": { "name": choice["name"] } })),
        _ => Err(ApiError::invalid(
            "tool_choice",
            "the type must be auto, any, tool or none",
        )),
    }
}

fn stop_reason(finish: &str, stopped_by: &Option<String>) -> &'static str {
    match (finish, stopped_by) {
        ("tool_calls", _) => "tool_use",
        ("length", _) => "max_tokens",
        (_, Some(_)) => "stop_sequence",
        _ => "end_turn",
    }
}

fn tool_use(index: usize, call: &tools::Call) -> Value {
    let input = serde_json::from_str::<Value>(&call.1).unwrap_or_default();
    let id = format!("toolu_{}_{index}", runtime::instance_id());
    json!({ "type": "tool_use", "id": id, "name": call.0, "input": input })
}

/// A block of thoughts. The API signs them; nothing here does.
fn thinking(text: &str) -> Value {
    json!({ "type": "thinking", "thinking": text, "signature": "" })
}

fn head(options: &Options, usage: Value) -> Value {
    json!({
        "id": format!("msg_{}", runtime::instance_id()),
        "type": "message",
        "role": "assistant",
        "model": options.name,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage,
    })
}

/// The tokens of a request. `input_tokens` are those that were not cached, as the API has it.
fn usage_of(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.prompt - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
        "output_tokens_details": { "thinking_tokens": usage.thoughts },
    })
}

fn message(options: &Options, choice: &Choice, usage: &Usage) -> Value {
    let mut content = Vec::new();
    if !choice.thought.is_empty() {
        content.push(thinking(&choice.thought));
    }
    if !choice.text.is_empty() || choice.calls.is_empty() {
        content.push(json!({ "type": "text", "text": choice.text }));
    }
    let calls = choice.calls.iter().enumerate();
    content.extend(calls.map(|(index, call)| tool_use(index, call)));
    let mut message = head(options, usage_of(usage));
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(choice.finish, &choice.stopped_by).into();
    message["stop_sequence"] = json!(choice.stopped_by);
    message
}
