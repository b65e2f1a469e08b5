//! `/v1/responses`. A request is translated to one of `/v1/chat/completions`. Responses are not stored: a request brings
//! the whole conversation.

use crate::api_error::ApiError;
use crate::chat;
use crate::choices::{collect, generate, Choice, Delta, Usage};
use crate::options::{boolean, Options};
use crate::reply::{self, now, Events, SharedEvents};
use crate::tools;
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Map, Value};
use std::cell::RefCell;

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
    // These change nothing here.
    "include",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream_options",
    "truncation",
    "user",
];
/// Fields that would need stored responses, or work without a client.
const REFUSED: &[&str] = &[
    "previous_response_id",
    "conversation",
    "prompt",
    "background",
];

pub async fn serve(body: Fields, respond: Responder) -> Result<()> {
    let (options, prompt) = match prepare(&body) {
        Ok(prepared) => prepared,
        Err(error) => return reply::fail(respond, error).await,
    };
    let shown = Shown::new(&body, &options);
    if options.stream {
        return stream(options, prompt, shown, respond).await;
    }
    match collect(&options, prompt).await {
        Ok((choices, usage)) => {
            let answer = shown.finished(output(&choices[0]), choices[0].finish, &usage);
            reply::send(respond, &answer).await
        }
        Err(error) => reply::fail(respond, ApiError::engine(error)).await,
    }
}

fn prepare(fields: &Fields) -> Parsed<(Options, Context)> {
    for (name, value) in fields {
        let given = !value.is_null() && value != &Value::Bool(false);
        if REFUSED.contains(&name.as_str()) {
            if given {
                let text =
                    format!("'{name}' is not served: send the whole conversation as 'input'");
                return Err(ApiError::invalid(name, text));
            }
        } else if !KNOWN.contains(&name.as_str()) {
            let text = format!("Unknown parameter: '{name}'.");
            return Err(ApiError::invalid(name, text).with_code("unknown_parameter"));
        }
    }
    boolean(fields, "store")?;
    let mut chat = Fields::new();
    for name in ["model", "stream", "temperature", "top_p"] {
        if let Some(value) = fields.get(name) {
            chat.insert(name.into(), value.clone());
        }
    }
    if let Some(limit) = fields.get("max_output_tokens") {
        chat.insert("max_completion_tokens".into(), limit.clone());
    }
    chat.insert("messages".into(), messages(fields)?);
    if let Some(list) = fields.get("tools").filter(|list| !list.is_null()) {
        chat.insert("tools".into(), tools_of(list)?);
    }
    if let Some(choice) = fields.get("tool_choice") {
        let named = choice["type"] == "function";
        let nested = json!({ "type": "function", "function": { "name": choice["name"] } });
        chat.insert(
            "tool_choice".into(),
            if named { nested } else { choice.clone() },
        );
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
        ("response_format", "text.format"),
    ];
    chat::prepare(&chat).map_err(|error| error.rename(&names))
}

fn tools_of(list: &Value) -> Parsed<Value> {
    let wrong = |text: &str| ApiError::invalid("tools", text);
    let one = |tool: &Value| match tool["type"].as_str() {
        Some("function") => Ok(json!({ "type": "function", "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["parameters"],
        }})),
        _ => Err(wrong("only tools of the type function are served")),
    };
    let list = list
        .as_array()
        .ok_or_else(|| wrong("'tools' must be a list"))?;
    Ok(Value::Array(list.iter().map(one).collect::<Parsed<_>>()?))
}

fn messages(fields: &Fields) -> Parsed<Value> {
    let mut all = Vec::new();
    match fields.get("instructions") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => all.push(json!({ "role": "system", "content": text })),
        Some(_) => return Err(ApiError::invalid("instructions", "must be a text")),
    }
    match fields.get("input") {
        Some(Value::String(text)) => all.push(json!({ "role": "user", "content": text })),
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                add(&mut all, item, &format!("input[{index}]"))?;
            }
        }
        _ => {
            let text = "'input' must be a text or a list of items";
            return Err(ApiError::invalid("input", text));
        }
    }
    Ok(Value::Array(all))
}

fn add(all: &mut Vec<Value>, item: &Value, place: &str) -> Parsed<()> {
    match item["type"].as_str() {
        None | Some("message") => {
            all.push(json!({ "role": item["role"], "content": text_of(&item["content"], place)? }));
        }
        Some("function_call") => {
            let call = json!({
                "id": item["call_id"],
                "type": "function",
                "function": { "name": item["name"], "arguments": item["arguments"] },
            });
            // Calls that follow one another form one turn, together with the text before them.
            let before = all
                .last_mut()
                .filter(|message| message["role"] == "assistant");
            match before.map(|message| &mut message["tool_calls"]) {
                Some(Value::Array(calls)) => calls.push(call),
                Some(none) => *none = json!([call]),
                None => {
                    all.push(json!({ "role": "assistant", "content": "", "tool_calls": [call] }))
                }
            }
        }
        Some("function_call_output") => {
            let said = text_of(&item["output"], place)?;
            let id = &item["call_id"];
            all.push(json!({ "role": "tool", "tool_call_id": id, "content": said }));
        }
        Some("reasoning") => {}
        Some(kind) => {
            let text = format!("an item of the type {kind} is not served");
            return Err(ApiError::invalid(place, text));
        }
    }
    Ok(())
}

/// A text, or a list of parts that are texts.
fn text_of(content: &Value, place: &str) -> Parsed<String> {
    let wrong = || {
        ApiError::invalid(
            place,
            "the content must be a text or a list of parts of the types input_text and output_text",
        )
    };
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts
            .iter()
            .map(
                |part| match (part["type"].as_str(), part["text"].as_str()) {
                    (Some("input_text" | "output_text" | "text"), Some(text)) => Ok(text),
                    _ => Err(wrong()),
                },
            )
            .collect(),
        _ => Err(wrong()),
    }
}

fn message_id() -> String {
    format!("msg_{}", runtime::instance_id())
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
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

fn output(choice: &Choice) -> Vec<Value> {
    let mut items = Vec::new();
    if !choice.text.is_empty() || choice.calls.is_empty() {
        items.push(message(vec![part(&choice.text)], status_of(choice.finish)));
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
struct Shown(Value);

impl Shown {
    fn new(fields: &Fields, options: &Options) -> Shown {
        let said = |name: &str| fields.get(name).cloned().unwrap_or_default();
        let or = |name: &str, otherwise: Value| match said(name) {
            Value::Null => otherwise,
            value => value,
        };
        Shown(json!({
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
            "previous_response_id": null,
            "reasoning": { "effort": null, "summary": null },
            "store": false,
            "temperature": options.temperature,
            "text": or("text", json!({ "format": { "type": "text" } })),
            "tool_choice": or("tool_choice", json!("auto")),
            "tools": or("tools", json!([])),
            "top_p": options.top_p,
            "truncation": or("truncation", json!("disabled")),
            "usage": null,
            "user": said("user"),
            "metadata": or("metadata", json!({})),
        }))
    }

    fn finished(&self, output: Vec<Value>, finish: &str, usage: &Usage) -> Value {
        let mut response = self.0.clone();
        response["status"] = status_of(finish).into();
        if finish == "length" {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        response["output"] = output.into();
        response["usage"] = json!({
            "input_tokens": usage.prompt,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": usage.completion,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": usage.prompt + usage.completion,
        });
        response
    }
}

/// The events of a stream, which are numbered.
#[derive(Default)]
struct Items {
    number: u64,
    choice: Choice,
    in_text: bool,
}

impl Items {
    fn event(&mut self, kind: &str, mut fields: Value) -> Value {
        fields["type"] = format!("response.{kind}").into();
        fields["sequence_number"] = self.number.into();
        self.number += 1;
        fields
    }

    fn take(&mut self, delta: Delta) -> Vec<Value> {
        let mut events = Vec::new();
        let at = json!({ "item_id": message_id(), "output_index": 0, "content_index": 0 });
        let place = |more: Value| {
            let mut fields = at.clone();
            for (name, value) in more.as_object().into_iter().flatten() {
                fields[name] = value.clone();
            }
            fields
        };
        let ends_empty = delta.finish.is_some() && delta.calls.is_empty();
        if !self.in_text && (!delta.text.is_empty() || ends_empty) {
            self.in_text = true;
            let item = message(Vec::new(), "in_progress");
            let added = json!({ "output_index": 0, "item": item });
            events.push(self.event("output_item.added", added));
            events.push(self.event("content_part.added", place(json!({ "part": part("") }))));
        }
        if !delta.text.is_empty() {
            let said = place(json!({ "delta": delta.text, "logprobs": [] }));
            events.push(self.event("output_text.delta", said));
        }
        self.choice.take(delta);
        if self.choice.finish.is_empty() {
            return events;
        }
        if self.in_text {
            let text = self.choice.text.clone();
            let done = place(json!({ "text": text, "logprobs": [] }));
            events.push(self.event("output_text.done", done));
            let done = place(json!({ "part": part(&text) }));
            events.push(self.event("content_part.done", done));
        }
        for (index, item) in output(&self.choice).into_iter().enumerate() {
            if item["type"] == "function_call" {
                let arguments = item["arguments"].clone();
                let mut begun = item.clone();
                begun["arguments"] = "".into();
                begun["status"] = "in_progress".into();
                let added = json!({ "output_index": index, "item": begun });
                events.push(self.event("output_item.added", added));
                let at =
                    json!({ "item_id": item["id"], "output_index": index, "delta": arguments });
                events.push(self.event("function_call_arguments.delta", at));
                let done = json!({
                    "item_id": item["id"], "output_index": index, "name": item["name"],
                    "arguments": arguments,
                });
                events.push(self.event("function_call_arguments.done", done));
            }
            let done = json!({ "output_index": index, "item": item });
            events.push(self.event("output_item.done", done));
        }
        events
    }
}

async fn stream(options: Options, prompt: Context, shown: Shown, respond: Responder) -> Result<()> {
    let mut items = Items::default();
    let mut first = Events::start_named(respond)?;
    for kind in ["created", "in_progress"] {
        let event = items.event(kind, json!({ "response": shown.0 }));
        first.send(&event).await?;
    }
    let events = &SharedEvents::new(first);
    let items = RefCell::new(items);
    let take = |delta: Delta| {
        let chunks = items.borrow_mut().take(delta);
        async move { events.send_all(&chunks).await }
    };
    let generated = generate(&options, prompt, take).await;
    let mut items = items.into_inner();
    let last = match generated {
        Ok(usage) => {
            let finish = items.choice.finish;
            let response = shown.finished(output(&items.choice), finish, &usage);
            items.event(status_of(finish), json!({ "response": response }))
        }
        Err(error) => {
            let mut response = shown.0.clone();
            response["status"] = "failed".into();
            response["error"] = json!({ "code": "server_error", "message": error });
            items.event("failed", json!({ "response": response }))
        }
    };
    events.finish(&[last]).await
}
