//! `/v1/messages`, in Anthropic's form. A request is translated to one of `/v1/chat/completions`.

use crate::api_error::ApiError;
use crate::chat;
use crate::choices::{collect, generate, length, Choice, Delta, Usage};
use crate::options::{number, whole, Options};
use crate::reply::{self, SharedEvents};
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
    "thinking",
    "output_config",
    "output_format",
    // These change nothing here.
    "metadata",
    "service_tier",
    "cache_control",
    "inference_geo",
];

pub async fn serve(body: Fields, respond: Responder) -> Result<()> {
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
        return stream(options, prompt, shows_thoughts, respond).await;
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
    body.insert("max_tokens".into(), json!(1));
    match prepare(&body) {
        Ok((_, prompt)) => reply::send(respond, &json!({ "input_tokens": length(&prompt) })).await,
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
    let top_k = whole(fields, "top_k", 0, MAX_TOP_K)?.filter(|k| *k > 0);
    check_thinking(fields)?;
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
        chat.insert("tool_choice".into(), tool_choice(choice)?);
        let alone = choice["disable_parallel_tool_use"] == true;
        chat.insert("parallel_tool_calls".into(), json!(!alone));
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

fn check_thinking(fields: &Fields) -> Parsed<()> {
    match fields.get("thinking") {
        None | Some(Value::Null) => Ok(()),
        Some(thinking) => match thinking["type"].as_str() {
            Some("enabled" | "adaptive" | "disabled") => Ok(()),
            _ => {
                let text = "the type must be enabled, adaptive or disabled";
                Err(ApiError::invalid("thinking", text))
            }
        },
    }
}

/// Reads the JSON Schema that an answer must match, if there is one.
fn form(fields: &Fields) -> Parsed<Option<Value>> {
    let of_config = fields
        .get("output_config")
        .and_then(|config| config.get("format"));
    let Some(format) = of_config
        .or(fields.get("output_format"))
        .filter(|format| !format.is_null())
    else {
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

/// A translated conversation.
#[derive(Default)]
struct Turns {
    messages: Vec<Value>,
    /// Where each message comes from.
    places: Vec<String>,
    /// A last message of the assistant: it is the beginning of the answer.
    begun: String,
}

impl Turns {
    /// Adds a message. Messages of the same role that follow one another are one turn, as in the API.
    fn push(&mut self, message: Value, place: &str) {
        let role = message["role"].as_str().unwrap_or_default();
        let joins = matches!(role, "user" | "assistant");
        match self.messages.last_mut() {
            Some(last) if joins && last["role"] == role => join(last, message),
            _ => {
                self.messages.push(message);
                self.places.push(place.into());
            }
        }
    }

    /// Whether the last turn of the assistant has the call of this id.
    fn calls(&self, id: &Value) -> bool {
        let last = self
            .messages
            .iter()
            .rfind(|turn| turn["role"] == "assistant");
        let calls = last.and_then(|turn| turn["tool_calls"].as_array());
        calls.is_some_and(|calls| calls.iter().any(|call| call["id"] == *id))
    }
}

/// Appends the text and the calls of a message to the one before it.
fn join(last: &mut Value, mut message: Value) {
    let texts = [&last["content"], &message["content"]].map(|text| text.as_str().unwrap_or(""));
    let between = match texts.iter().any(|text| text.is_empty()) {
        true => "",
        false => "\n",
    };
    last["content"] = texts.join(between).into();
    if let (Some(calls), Some(more)) = (
        last["tool_calls"].as_array_mut(),
        message["tool_calls"].as_array_mut(),
    ) {
        calls.append(more);
    }
}

fn turns(fields: &Fields) -> Parsed<Turns> {
    let mut turns = Turns::default();
    match fields.get("system") {
        None | Some(Value::Null) => {}
        Some(system) => {
            let text = blocks(system, "system", &mut Vec::new(), &mut Vec::new())?;
            turns.push(json!({ "role": "system", "content": text }), "system");
        }
    }
    let list = match fields.get("messages") {
        Some(Value::Array(list)) => list,
        None => return Err(ApiError::invalid("messages", "Field required")),
        Some(_) => return Err(ApiError::invalid("messages", "must be a list of messages")),
    };
    for (index, message) in list.iter().enumerate() {
        let place = format!("messages.{index}");
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        let text = blocks(&message["content"], &place, &mut calls, &mut results)?;
        match message["role"].as_str() {
            Some("user") if text.is_empty() && results.is_empty() => {
                let text = "user messages must have non-empty content";
                return Err(ApiError::invalid(&place, text));
            }
            Some("user") => {
                let only_results = !results.is_empty() && text.is_empty();
                for result in results {
                    let id = &result["tool_call_id"];
                    if !turns.calls(id) {
                        let text = format!(
                            "unexpected tool_use_id in a tool_result block: {id}. The turn before \
                             must have a tool_use block of this id"
                        );
                        return Err(ApiError::invalid(&place, text));
                    }
                    turns.push(result, &place);
                }
                if !only_results {
                    turns.push(json!({ "role": "user", "content": text }), &place);
                }
            }
            Some("assistant") if index > 0 && index + 1 == list.len() && calls.is_empty() => {
                if text.ends_with(char::is_whitespace) {
                    let text = "final assistant content cannot end with trailing whitespace";
                    return Err(ApiError::invalid("messages", text));
                }
                turns.begun = text;
            }
            Some("assistant") => {
                let said = json!({ "role": "assistant", "content": text, "tool_calls": calls });
                turns.push(said, &place);
            }
            _ => {
                let text = "the role must be user or assistant";
                return Err(ApiError::invalid(&format!("{place}.role"), text));
            }
        }
    }
    Ok(turns)
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
            (Some("tool_use"), _) => {
                let named = block["id"].is_string() && block["name"].is_string();
                if !named || !block["input"].is_object() {
                    let text = "a tool_use block must have the texts id and name, and an object \
                                as its input";
                    return Err(ApiError::invalid(&place, text));
                }
                calls.push(json!({
                    "id": block["id"],
                    "type": "function",
                    "function": { "name": block["name"], "arguments": block["input"].to_string() },
                }));
            }
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

/// The state of an event stream: how many blocks have begun, which kind of delta the open one takes, and why the answer
/// ended.
#[derive(Default)]
struct Blocks {
    count: usize,
    open: Option<&'static str>,
    shows_thoughts: bool,
    stop_reason: &'static str,
    stopped_by: Option<String>,
}

impl Blocks {
    fn take(&mut self, delta: Delta) -> Vec<Value> {
        let mut events = Vec::new();
        if !delta.thought.is_empty() && self.shows_thoughts {
            self.open_block("thinking_delta", thinking(""), &mut events);
            let more = json!({ "type": "thinking_delta", "thinking": delta.thought });
            events.push(self.delta(more));
        }
        if !delta.text.is_empty() {
            let block = json!({ "type": "text", "text": "" });
            self.open_block("text_delta", block, &mut events);
            events.push(self.delta(json!({ "type": "text_delta", "text": delta.text })));
        }
        if delta.finish.is_some() && self.open.is_some() {
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

    /// Opens a block for deltas of this kind, unless it is open. Closes a block of another kind.
    fn open_block(&mut self, kind: &'static str, block: Value, events: &mut Vec<Value>) {
        if self.open == Some(kind) {
            return;
        }
        if self.open.is_some() {
            events.push(self.stop());
        }
        self.open = Some(kind);
        events.push(self.start(block));
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
        self.open = None;
        event
    }
}

async fn stream(
    options: Options,
    prompt: Context,
    shows_thoughts: bool,
    respond: Responder,
) -> Result<()> {
    // What is cached is known when the answer begins. The last event counts again.
    let usage = usage_of(&Usage {
        prompt: length(&prompt),
        ..Usage::default()
    });
    let start = json!({ "type": "message_start", "message": head(&options, usage) });
    let events = &SharedEvents::named(respond, vec![start]);
    let blocks = RefCell::new(Blocks {
        shows_thoughts,
        ..Blocks::default()
    });
    let take = |delta: Delta| {
        let chunks = blocks.borrow_mut().take(delta);
        async move { events.send_all(&chunks).await }
    };
    let generated = generate(&options, vec![prompt], take).await;
    let blocks = blocks.into_inner();
    let last = match generated.map_err(ApiError::engine) {
        Ok(usage) => vec![
            json!({
                "type": "message_delta",
                "delta": { "stop_reason": blocks.stop_reason, "stop_sequence": blocks.stopped_by },
                "usage": usage_of(&usage),
            }),
            json!({ "type": "message_stop" }),
        ],
        Err(error) => match events.unused() {
            Some(respond) => return fail(respond, error).await,
            None => vec![error.in_messages_form()],
        },
    };
    events.finish(&last).await
}
