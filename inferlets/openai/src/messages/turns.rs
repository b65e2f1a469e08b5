//! The conversation of a request to `/v1/messages`, translated to messages of `/v1/chat/completions`.

use super::{Fields, Parsed};
use crate::api_error::ApiError;
use serde_json::{json, Value};

/// A translated conversation.
#[derive(Default)]
pub(super) struct Turns {
    pub messages: Vec<Value>,
    /// Where each message comes from.
    pub places: Vec<String>,
    /// A last message of the assistant: it is the beginning of the answer.
    pub begun: String,
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

pub(super) fn turns(fields: &Fields) -> Parsed<Turns> {
    let mut turns = Turns::default();
    if let Some(system) = fields.get("system") {
        let text = read(system, "system", PARAGRAPHS)?.text;
        turns.push(json!({ "role": "system", "content": text }), "system");
    }
    let list = match fields.get("messages") {
        Some(Value::Array(list)) => list,
        None => return Err(ApiError::invalid("messages", "Field required")),
        Some(_) => return Err(ApiError::invalid("messages", "must be a list of messages")),
    };
    for (index, message) in list.iter().enumerate() {
        let place = format!("messages.{index}");
        let between = match message["role"] == "assistant" {
            true => "", // its blocks are one text, for example around what it cites
            false => PARAGRAPHS,
        };
        let Content {
            text,
            calls,
            results,
        } = read(&message["content"], &place, between)?;
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

/// The separator between two blocks of text.
const PARAGRAPHS: &str = "\n";

/// The content of a message: its text, its calls of tools, and results of such calls.
#[derive(Default)]
struct Content {
    text: String,
    calls: Vec<Value>,
    results: Vec<Value>,
}

/// Reads content: a text, or a list of blocks. `between` joins blocks of text.
fn read(content: &Value, place: &str, between: &str) -> Parsed<Content> {
    let mut all = Content::default();
    let list = match content {
        Value::String(text) => {
            all.text = text.clone();
            return Ok(all);
        }
        Value::Array(list) => list,
        _ => {
            let text = "the content must be a text or a list of blocks";
            return Err(ApiError::invalid(&format!("{place}.content"), text));
        }
    };
    for (index, block) in list.iter().enumerate() {
        let place = format!("{place}.content.{index}");
        match (block["type"].as_str(), block["text"].as_str()) {
            (Some("text"), Some(text)) => {
                if !all.text.is_empty() && !text.is_empty() {
                    all.text += between;
                }
                all.text += text;
            }
            (Some("tool_use"), _) => {
                let named = block["id"].is_string() && block["name"].is_string();
                if !named || !block["input"].is_object() {
                    let text = "a tool_use block must have the texts id and name, and an object \
                                as its input";
                    return Err(ApiError::invalid(&place, text));
                }
                all.calls.push(json!({
                    "id": block["id"],
                    "type": "function",
                    "function": { "name": block["name"], "arguments": block["input"].to_string() },
                }));
            }
            (Some("tool_result"), _) => {
                all.results.push(json!({
                    "role": "tool",
                    "tool_call_id": block["tool_use_id"],
                    "content": result_of(block, &place)?,
                }));
            }
            (Some("thinking" | "redacted_thinking"), _) => {}
            (Some(kind), _) if is_of_servers(kind) => {}
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

/// Whether a block is about a tool that the API's own servers ran, in a conversation that began there. The text after
/// it says what the model concluded from it.
fn is_of_servers(kind: &str) -> bool {
    const OTHERS: [&str; 4] = [
        "server_tool_use",
        "mcp_tool_use",
        "container_upload",
        "compaction",
    ];
    OTHERS.contains(&kind) || kind.ends_with("_tool_result")
}

/// The text of a tool's result. Chat templates have no place for `is_error`, so the text says it.
fn result_of(block: &Value, place: &str) -> Parsed<String> {
    let text = match &block["content"] {
        Value::Null => String::new(),
        content => read(content, place, PARAGRAPHS)?.text,
    };
    let says_so = text
        .get(..5)
        .is_some_and(|word| word.eq_ignore_ascii_case("error"));
    Ok(match block["is_error"] == true && !says_so {
        true => format!("Error: {text}").trim_end().to_string(),
        false => text,
    })
}
