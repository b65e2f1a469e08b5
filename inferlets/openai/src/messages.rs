//! `/v1/messages`, in Anthropic's form. A request is translated to one of `/v1/chat/completions`.

use crate::api_error::ApiError;
use crate::chat;
use crate::choices::{collect, generate, Choice, Delta, Usage};
use crate::options::{whole, Options};
use crate::reply::{self, Events, SharedEvents};
use crate::tools;
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Map, Value};
use std::cell::RefCell;

type Fields = Map<String, Value>;
type Parsed<T> = std::result::Result<T, ApiError>;

const MAX_STOPS: usize = 64;
const MAX_TOKENS: u64 = 1 << 20;
const MAX_TOP_K: u64 = 1 << 20;
const KNOWN: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stop_sequences",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "tools",
    "tool_choice",
    // These change nothing here.
    "metadata",
    "service_tier",
    "thinking",
    "cache_control",
    "inference_geo",
];

pub async fn serve(body: Fields, respond: Responder) -> Result<()> {
    let (options, prompt) = match prepare(&body) {
        Ok(prepared) => prepared,
        Err(error) => return fail(respond, error).await,
    };
    if options.stream {
        return stream(options, prompt, respond).await;
    }
    match collect(&options, prompt).await {
        Ok((choices, usage)) => reply::send(respond, &message(&options, &choices[0], &usage)).await,
        Err(error) => fail(respond, ApiError::engine(error)).await,
    }
}

/// `/v1/messages/count_tokens`
pub async fn count_tokens(mut body: Fields, respond: Responder) -> Result<()> {
    body.insert("max_tokens".into(), json!(1));
    match prepare(&body) {
        Ok((_, prompt)) => {
            let tokens = prompt.seq_len() as usize + prompt.buffer().len();
            reply::send(respond, &json!({ "input_tokens": tokens })).await
        }
        Err(error) => fail(respond, error).await,
    }
}

pub async fn fail(respond: Responder, error: ApiError) -> Result<()> {
    reply::send(respond.status(error.status), &error.in_messages_form()).await
}

fn prepare(fields: &Fields) -> Parsed<(Options, Context)> {
    for name in fields.keys() {
        if !KNOWN.contains(&name.as_str()) {
            return Err(ApiError::invalid(name, "Extra inputs are not permitted"));
        }
    }
    if whole(fields, "max_tokens", 1, MAX_TOKENS)?.is_none() {
        return Err(ApiError::invalid("max_tokens", "Field required"));
    }
    let top_k = whole(fields, "top_k", 1, MAX_TOP_K)?;
    let stops = stop_sequences(fields)?;
    let mut chat = Fields::new();
    for name in ["model", "max_tokens", "stream", "temperature", "top_p"] {
        if let Some(value) = fields.get(name) {
            chat.insert(name.into(), value.clone());
        }
    }
    chat.insert("messages".into(), messages(fields)?);
    if let Some(list) = fields.get("tools") {
        chat.insert("tools".into(), tools_of(list)?);
    }
    if let Some(choice) = fields.get("tool_choice") {
        chat.insert("tool_choice".into(), tool_choice(choice)?);
    }
    let (mut options, prompt) = chat::prepare(&chat)?;
    options.stops = stops;
    options.top_k = top_k.map(|k| k as u32);
    Ok((options, prompt))
}

fn stop_sequences(fields: &Fields) -> Parsed<Vec<String>> {
    let wrong = || {
        let text = format!("must be a list of at most {MAX_STOPS} texts that are not empty");
        ApiError::invalid("stop_sequences", text)
    };
    match fields.get("stop_sequences") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= MAX_STOPS => list
            .iter()
            .map(|stop| stop.as_str().filter(|stop| !stop.is_empty()))
            .map(|stop| stop.map(str::to_string).ok_or_else(wrong))
            .collect(),
        Some(_) => Err(wrong()),
    }
}

fn tools_of(list: &Value) -> Parsed<Value> {
    let wrong = || ApiError::invalid("tools", "must be a list of tools with a name and a schema");
    let one = |tool: &Value| {
        if !matches!(tool["type"].as_str(), None | Some("custom")) {
            return Err(ApiError::invalid(
                "tools",
                "only tools of the type custom are served",
            ));
        }
        if !tool["input_schema"].is_object() {
            return Err(wrong());
        }
        Ok(json!({ "type": "function", "function": {
            "name": tool["name"],
            "description": tool["description"],
            "parameters": tool["input_schema"],
        }}))
    };
    let list = list.as_array().ok_or_else(wrong)?;
    Ok(Value::Array(list.iter().map(one).collect::<Parsed<_>>()?))
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

fn messages(fields: &Fields) -> Parsed<Value> {
    let mut all = Vec::new();
    match fields.get("system") {
        None | Some(Value::Null) => {}
        Some(system) => {
            let text = blocks(system, "system", &mut Vec::new(), &mut Vec::new())?;
            all.push(json!({ "role": "system", "content": text }));
        }
    }
    let Some(Value::Array(list)) = fields.get("messages") else {
        return Err(ApiError::invalid("messages", "Field required"));
    };
    for (index, message) in list.iter().enumerate() {
        let place = format!("messages.{index}");
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        let text = blocks(&message["content"], &place, &mut calls, &mut results)?;
        match message["role"].as_str() {
            Some("user") => {
                let only_results = !results.is_empty() && text.is_empty();
                all.append(&mut results);
                if !only_results {
                    all.push(json!({ "role": "user", "content": text }));
                }
            }
            Some("assistant") => {
                all.push(json!({ "role": "assistant", "content": text, "tool_calls": calls }));
            }
            _ => {
                let text = "the role must be user or assistant";
                return Err(ApiError::invalid(&format!("{place}.role"), text));
            }
        }
    }
    Ok(Value::Array(all))
}

/// Reads content: a text, or a list of blocks. Returns its text; calls and results of tools are put aside.
fn blocks(
    content: &Value,
    place: &str,
    calls: &mut Vec<Value>,
    results: &mut Vec<Value>,
) -> Parsed<String> {
    let list = match content {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(list) => list,
        _ => {
            let text = "the content must be a text or a list of blocks";
            return Err(ApiError::invalid(&format!("{place}.content"), text));
        }
    };
    let mut all = String::new();
    for (index, block) in list.iter().enumerate() {
        let place = format!("{place}.content.{index}");
        match (block["type"].as_str(), block["text"].as_str()) {
            (Some("text"), Some(text)) => all.push_str(text),
            (Some("tool_use"), _) => calls.push(json!({
                "id": block["id"],
                "type": "function",
                "function": { "name": block["name"], "arguments": block["input"].to_string() },
            })),
            (Some("tool_result"), _) => {
                let said = match &block["content"] {
                    Value::Null => String::new(),
                    content => blocks(content, &place, &mut Vec::new(), &mut Vec::new())?,
                };
                results.push(json!({
                    "role": "tool", "tool_call_id": block["tool_use_id"], "content": said,
                }));
            }
            (Some("thinking" | "redacted_thinking"), _) => {}
            (kind, _) => {
                let text = format!(
                    "a block of the type {} is not served; text, tool_use and tool_result are",
                    kind.unwrap_or("(none)")
                );
                return Err(ApiError::invalid(&place, text));
            }
        }
    }
    Ok(all)
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

fn message(options: &Options, choice: &Choice, usage: &Usage) -> Value {
    let mut content = Vec::new();
    if !choice.text.is_empty() || choice.calls.is_empty() {
        content.push(json!({ "type": "text", "text": choice.text }));
    }
    let calls = choice.calls.iter().enumerate();
    content.extend(calls.map(|(index, call)| tool_use(index, call)));
    let usage = json!({ "input_tokens": usage.prompt, "output_tokens": usage.completion });
    let mut message = head(options, usage);
    message["content"] = content.into();
    message["stop_reason"] = stop_reason(choice.finish, &choice.stopped_by).into();
    message["stop_sequence"] = json!(choice.stopped_by);
    message
}

/// The state of an event stream: how many blocks have begun, whether a block of text is open, and why the answer ended.
#[derive(Default)]
struct Blocks {
    count: usize,
    in_text: bool,
    stop_reason: &'static str,
    stopped_by: Option<String>,
}

impl Blocks {
    fn take(&mut self, delta: Delta) -> Vec<Value> {
        let mut events = Vec::new();
        if !delta.text.is_empty() {
            if !self.in_text {
                self.in_text = true;
                events.push(self.start(json!({ "type": "text", "text": "" })));
            }
            events.push(self.delta(json!({ "type": "text_delta", "text": delta.text })));
        }
        if delta.finish.is_some() && self.in_text {
            events.push(self.stop());
        }
        for (index, call) in delta.calls.iter().enumerate() {
            let mut block = tool_use(index, call);
            block["input"] = json!({});
            events.push(self.start(block));
            let input = json!({ "type": "input_json_delta", "partial_json": call.1 });
            events.push(self.delta(input));
            events.push(self.stop());
        }
        if let Some(finish) = delta.finish {
            self.stop_reason = stop_reason(finish, &delta.stopped_by);
            self.stopped_by = delta.stopped_by;
        }
        events
    }

    fn start(&self, block: Value) -> Value {
        json!({ "type": "content_block_start", "index": self.count, "content_block": block })
    }
    fn delta(&self, delta: Value) -> Value {
        json!({ "type": "content_block_delta", "index": self.count, "delta": delta })
    }
    fn stop(&mut self) -> Value {
        let event = json!({ "type": "content_block_stop", "index": self.count });
        self.count += 1;
        self.in_text = false;
        event
    }
}

async fn stream(options: Options, prompt: Context, respond: Responder) -> Result<()> {
    let tokens = prompt.seq_len() as usize + prompt.buffer().len();
    let usage = json!({ "input_tokens": tokens, "output_tokens": 0 });
    let mut first = Events::start_named(respond)?;
    let start = json!({ "type": "message_start", "message": head(&options, usage) });
    first.send(&start).await?;
    let events = &SharedEvents::new(first);
    let blocks = RefCell::new(Blocks::default());
    let take = |delta: Delta| {
        let chunks = blocks.borrow_mut().take(delta);
        async move { events.send_all(&chunks).await }
    };
    let generated = generate(&options, prompt, take).await;
    let blocks = blocks.into_inner();
    let last = match generated {
        Ok(usage) => vec![
            json!({
                "type": "message_delta",
                "delta": { "stop_reason": blocks.stop_reason, "stop_sequence": blocks.stopped_by },
                "usage": { "input_tokens": usage.prompt, "output_tokens": usage.completion },
            }),
            json!({ "type": "message_stop" }),
        ],
        Err(error) => vec![ApiError::engine(error).in_messages_form()],
    };
    events.finish(&last).await
}
