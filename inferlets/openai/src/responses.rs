//! `/v1/responses`. A request is translated to one of `/v1/chat/completions`. Responses are stored if users have a folder
//! for files; a request can then go on from one of them, and otherwise brings the whole conversation.

mod conversation;
mod input_items;
mod stream;

use crate::api_error::ApiError;
use crate::chat;
use crate::choices::{collect, length, Choice, Usage};
use crate::options::{check_types, Options};
use crate::reply::{self, now};
use crate::scored::Scored;
use crate::store;
use crate::tools;
use conversation::{items, messages};
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Map, Value};

type Fields = Map<String, Value>;
type Parsed<T> = std::result::Result<T, ApiError>;

const KNOWN: &[&str] = &[
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "temperature",
    "top_p",
    "stream",
    "text",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "top_logprobs",
    "include",
    "previous_response_id",
    "store",
    "reasoning",
    // These change nothing here.
    "max_tool_calls",
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "stream_options",
    "truncation",
    "user",
];
/// Fields that would need stored conversations or prompts, or work without a client.
const REFUSED: &[(&str, &str)] = &[
    ("conversation", WHOLE),
    ("prompt", "send its text as 'instructions' and 'input'"),
    ("background", "wait for the answer, or read it as a stream"),
];
const WHOLE: &str = "go on from 'previous_response_id', or send the whole conversation as 'input'";

pub async fn serve(body: Fields, respond: Responder) -> Result<()> {
    let (options, prompt, items) = match prepare(&body) {
        Ok(prepared) => prepared,
        Err(error) => return reply::fail(respond, error).await,
    };
    let wanted = body.get("store") != Some(&Value::Bool(false));
    let items = (wanted && store::has_room()).then_some(items);
    let shown = Shown::new(&body, &options, items);
    if options.stream {
        return stream::serve(options, prompt, shown, respond).await;
    }
    match collect(&options, vec![prompt]).await {
        Ok((choices, usage)) => {
            let choice = &choices[0];
            let answer = shown.finished(output(&options, choice), choice.finish, &usage);
            reply::send(respond, &answer).await
        }
        Err(error) => reply::fail(respond, ApiError::engine(error)).await,
    }
}

/// Stored responses: `GET` and `DELETE` of `/v1/responses/<id>`, `GET` of `<id>/input_items`, `POST` of `<id>/cancel`.
/// `path` is what follows `/v1/responses/`.
pub fn stored(method: &str, path: &str, query: &str) -> Parsed<Value> {
    let (id, part) = path.split_once('/').unwrap_or((path, ""));
    let missing = || {
        let text = format!("Response with id '{id}' not found.");
        ApiError::new(404, "response_not_found", text)
    };
    let found = || store::find(id).ok_or_else(missing);
    match (method, part) {
        ("GET", "") if query.split('&').any(|pair| pair == "stream=true") => {
            found()?;
            let text =
                "a stored response is complete and cannot be streamed; get it without 'stream'";
            Err(ApiError::invalid("stream", text))
        }
        ("GET", "") => Ok(found()?.response),
        ("DELETE", "") if store::delete(id) => {
            Ok(json!({ "id": id, "object": "response", "deleted": true }))
        }
        ("DELETE", "") => Err(missing()),
        ("GET", "input_items") => input_items::page(id, found()?.items, query),
        ("POST", "cancel") => {
            found()?;
            let text = "only responses with 'background' can be cancelled; close the connection \
                        to end an answer that is being made";
            Err(ApiError::invalid("", text))
        }
        _ => Err(ApiError::new(
            404,
            "unknown_url",
            format!("Invalid URL ({method} /v1/responses/{path})"),
        )),
    }
}

/// `/v1/responses/input_tokens`
pub async fn count_tokens(body: Fields, respond: Responder) -> Result<()> {
    match prepare(&body) {
        Ok((_, prompt, _)) => {
            let count = json!({
                "object": "response.input_tokens", "input_tokens": length(&prompt),
            });
            reply::send(respond, &count).await
        }
        Err(error) => reply::fail(respond, error).await,
    }
}

/// Reads a request. The last part of the result is the whole input, as items.
fn prepare(fields: &Fields) -> Parsed<(Options, Context, Vec<Value>)> {
    for (name, value) in fields {
        let given = !value.is_null() && value != &Value::Bool(false);
        if let Some((_, hint)) = REFUSED.iter().find(|(refused, _)| refused == name) {
            if given {
                return Err(ApiError::unsupported(name, hint));
            }
        } else if !KNOWN.contains(&name.as_str()) {
            let text = format!("Unknown parameter: '{name}'.");
            return Err(ApiError::invalid(name, text).with_code("unknown_parameter"));
        }
    }
    check_types(fields)?;
    let mut chat = Fields::new();
    for name in [
        "model",
        "stream",
        "temperature",
        "top_p",
        "parallel_tool_calls",
    ] {
        if let Some(value) = fields.get(name) {
            chat.insert(name.into(), value.clone());
        }
    }
    let top = fields.get("top_logprobs").filter(|top| !top.is_null());
    let wanted = json!("message.output_text.logprobs");
    let included = fields.get("include").and_then(Value::as_array);
    if top.is_some() || included.is_some_and(|list| list.contains(&wanted)) {
        chat.insert("logprobs".into(), json!(true));
        chat.insert("top_logprobs".into(), top.cloned().unwrap_or(json!(0)));
    }
    if let Some(effort) = fields.get("reasoning").and_then(|how| how.get("effort")) {
        chat.insert("reasoning_effort".into(), effort.clone());
    }
    if let Some(limit) = fields.get("max_output_tokens") {
        chat.insert("max_completion_tokens".into(), limit.clone());
    }
    let (items, of_items) = items(fields)?;
    let (messages, places) = messages(fields, &items, &of_items)?;
    chat.insert("messages".into(), messages);
    if let Some(list) = fields.get("tools").filter(|list| !list.is_null()) {
        chat.insert("tools".into(), tools_of(list)?);
    }
    if let Some(choice) = fields.get("tool_choice") {
        chat.insert("tool_choice".into(), tool_choice(choice)?);
    }
    if let Some(format) = fields.get("text").and_then(|text| text.get("format")) {
        let mut format = format.clone();
        if format["type"] == "json_schema" {
            format =
                json!({ "type": "json_schema", "json_schema": { "schema": format["schema"] } });
        }
        chat.insert("response_format".into(), format);
    }
    let names = [
        ("max_completion_tokens", "max_output_tokens"),
        ("messages", "input"),
        ("reasoning_effort", "reasoning.effort"),
        ("response_format", "text.format"),
    ];
    let prepared = chat::prepare(&chat, &places);
    let (options, prompt) = prepared.map_err(|error| error.rename(&names))?;
    Ok((options, prompt, items))
}

/// Translates the tools. Tools of other types than functions, such as `web_search`, are run by OpenAI's servers or have
/// forms that only its models know: they are left out.
fn tools_of(list: &Value) -> Parsed<Value> {
    let one = |tool: &Value| {
        json!({ "type": "function", "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["parameters"],
        }})
    };
    let list = list
        .as_array()
        .ok_or_else(|| ApiError::invalid("tools", "'tools' must be a list"))?;
    if list.iter().any(|tool| !tool["type"].is_string()) {
        return Err(ApiError::invalid("tools", "each tool must have a type"));
    }
    Ok(list
        .iter()
        .filter(|tool| is_function(tool))
        .map(one)
        .collect())
}

fn is_function(tool: &Value) -> bool {
    tool["type"] == "function"
}

/// Translates `tool_choice`. Of allowed tools, those are left that `tools_of` leaves.
fn tool_choice(choice: &Value) -> Parsed<Value> {
    match choice["type"].as_str() {
        Some("function") => {
            Ok(json!({ "type": "function", "function": { "name": choice["name"] } }))
        }
        Some("allowed_tools") => {
            let mut choice = choice.clone();
            if let Some(tools) = choice["tools"].as_array_mut() {
                tools.retain(|tool| tool["type"].is_null() || is_function(tool));
            }
            Ok(choice)
        }
        Some(kind) => {
            let text = format!(
                "a tool of the type '{kind}' cannot be chosen: this server runs no tools, and \
                 leaves out those that are not functions"
            );
            Err(ApiError::invalid("tool_choice", text))
        }
        None => Ok(choice.clone()),
    }
}

fn message_id() -> String {
    format!("msg_{}", runtime::instance_id())
}

fn part(text: &str, logprobs: Value) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs })
}

/// The log-probabilities of tokens; an empty list if they were not asked for.
fn logprobs(options: &Options, tokens: &[Scored]) -> Value {
    match chat::scores(options, tokens) {
        Value::Null => json!([]),
        mut scores => scores["content"].take(),
    }
}

fn reasoning_id() -> String {
    format!("rs_{}", runtime::instance_id())
}

fn reasoning(text: &str, status: &str) -> Value {
    let content = match text {
        "" => json!([]),
        text => json!([{ "type": "reasoning_text", "text": text }]),
    };
    json!({
        "type": "reasoning", "id": reasoning_id(), "summary": [], "content": content,
        "status": status,
    })
}

fn message(content: Vec<Value>, status: &str) -> Value {
    json!({
        "type": "message", "id": message_id(), "status": status, "role": "assistant",
        "content": content,
    })
}

fn function_call(index: usize, call: &tools::Call, arguments: &str, status: &str) -> Value {
    let id = runtime::instance_id();
    json!({
        "type": "function_call", "id": format!("fc_{id}_{index}"), "status": status,
        "call_id": format!("call_{id}_{index}"), "name": call.0, "arguments": arguments,
    })
}

fn output(options: &Options, choice: &Choice) -> Vec<Value> {
    let mut items = Vec::new();
    if !choice.thought.is_empty() {
        items.push(reasoning(&choice.thought, "completed"));
    }
    if !choice.text.is_empty() || choice.calls.is_empty() {
        let part = part(&choice.text, logprobs(options, &choice.tokens));
        items.push(message(vec![part], status_of(choice.finish)));
    }
    let calls = choice.calls.iter().enumerate();
    items.extend(calls.map(|(index, call)| function_call(index, call, &call.1, "completed")));
    items
}

fn status_of(finish: &str) -> &'static str {
    match finish {
        "length" => "incomplete",
        _ => "completed",
    }
}

/// The response object, which repeats the fields of the request.
struct Shown {
    response: Value,
    /// The input items of the response, if it is to be stored.
    items: Option<Vec<Value>>,
}

impl Shown {
    fn new(fields: &Fields, options: &Options, items: Option<Vec<Value>>) -> Shown {
        let said = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let or = |name: &str, otherwise: Value| match said(name) {
            Value::Null => otherwise,
            value => value,
        };
        // The client sees here which of its tools were left out.
        let mut tools = or("tools", json!([]));
        if let Some(list) = tools.as_array_mut() {
            list.retain(is_function);
        }
        let response = json!({
            "id": format!("resp_{}", runtime::instance_id()),
            "object": "response",
            "created_at": now(),
            "status": "in_progress",
            "error": null,
            "incomplete_details": null,
            "instructions": said("instructions"),
            "max_output_tokens": said("max_output_tokens"),
            "model": options.name,
            "output": [],
            "parallel_tool_calls": or("parallel_tool_calls", json!(true)),
            "previous_response_id": said("previous_response_id"),
            "reasoning": { "effort": said("reasoning")["effort"], "summary": null },
            "store": items.is_some(),
            "temperature": or("temperature", json!(1.0)),
            "text": or("text", json!({ "format": { "type": "text" } })),
            "tool_choice": or("tool_choice", json!("auto")),
            "tools": tools,
            "top_logprobs": or("top_logprobs", json!(0)),
            "top_p": or("top_p", json!(1.0)),
            "truncation": or("truncation", json!("disabled")),
            "usage": null,
            "user": said("user"),
            "metadata": or("metadata", json!({})),
        });
        Shown { response, items }
    }

    /// The finished response, which is stored if that was asked for.
    fn finished(&self, output: Vec<Value>, finish: &str, usage: &Usage) -> Value {
        let mut response = self.response.clone();
        response["status"] = status_of(finish).into();
        if finish == "length" {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        response["output"] = output.into();
        response["usage"] = json!({
            "input_tokens": usage.prompt,
            "input_tokens_details": { "cached_tokens": usage.cached, "cache_write_tokens": 0 },
            "output_tokens": usage.completion,
            "output_tokens_details": { "reasoning_tokens": usage.thoughts },
            "total_tokens": usage.prompt + usage.completion,
        });
        if let Some(items) = &self.items {
            response["store"] = store::keep(&response, items).into();
        }
        response
    }
}
