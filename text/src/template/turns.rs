//! Turns of a conversation.
use serde_json::{json, Value as Json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnKind {
    System,
    User,
    Assistant,
    /// The tools that the model may call.
    Tools,
    /// A tool's answer.
    Answer,
    /// Where the model's own turn begins.
    Cue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    System(String),
    User(String),
    Assistant(String),
    /// Schemas, as `{"type": "function", "function": {…}}`.
    Tools(Vec<Json>),
    /// A tool's answer. The id is that of the call; it is empty if the caller gave none.
    Answer {
        name: String,
        id: String,
        value: String,
    },
    /// Where the model's own turn begins.
    Cue,
    /// An assistant's turn that calls tools, and the text before the calls.
    Calls {
        text: String,
        calls: Vec<Call>,
    },
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub name: String,
    /// Empty if the caller gave none.
    pub id: String,
    /// A JSON object.
    pub arguments: Json,
}

impl Turn {
    pub fn kind(&self) -> TurnKind {
        match self {
            Turn::System(_) => TurnKind::System,
            Turn::User(_) => TurnKind::User,
            Turn::Assistant(_) | Turn::Calls { .. } => TurnKind::Assistant,
            Turn::Tools(_) => TurnKind::Tools,
            Turn::Answer { .. } => TurnKind::Answer,
            Turn::Cue => TurnKind::Cue,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Turn::System(text) | Turn::User(text) | Turn::Assistant(text) => text.len(),
            Turn::Tools(tools) => tools.iter().map(|tool| tool.to_string().len()).sum(),
            Turn::Answer { name, id, value } => name.len() + id.len() + value.len(),
            Turn::Calls { text, calls } => {
                let bytes = |call: &Call| call.name.len() + call.arguments.to_string().len();
                text.len() + calls.iter().map(bytes).sum::<usize>()
            }
            Turn::Cue => 0,
        }
    }

    /// Shows `look` the content. Tools and the arguments of calls are shown as JSON.
    pub fn for_each_text(&self, look: &mut dyn FnMut(&str)) {
        match self {
            Turn::System(text) | Turn::User(text) | Turn::Assistant(text) => look(text),
            Turn::Tools(tools) => tools.iter().for_each(|tool| look(&tool.to_string())),
            Turn::Answer { name, id, value } => {
                look(name);
                look(id);
                look(value);
            }
            Turn::Calls { text, calls } => {
                look(text);
                for call in calls {
                    look(&call.name);
                    look(&call.id);
                    look(&call.arguments.to_string());
                }
            }
            Turn::Cue => {}
        }
    }

    /// The same turn with every text of its content replaced.
    pub fn map_texts(&self, with: &dyn Fn(&str) -> String) -> Turn {
        match self {
            Turn::System(text) => Turn::System(with(text)),
            Turn::User(text) => Turn::User(with(text)),
            Turn::Assistant(text) => Turn::Assistant(with(text)),
            Turn::Tools(tools) => {
                Turn::Tools(tools.iter().map(|tool| map_json(tool, with)).collect())
            }
            Turn::Answer { name, id, value } => Turn::Answer {
                name: with(name),
                id: with(id),
                value: with(value),
            },
            Turn::Calls { text, calls } => {
                let call = |call: &Call| Call {
                    name: with(&call.name),
                    id: with(&call.id),
                    arguments: map_json(&call.arguments, with),
                };
                Turn::Calls {
                    text: with(text),
                    calls: calls.iter().map(call).collect(),
                }
            }
            Turn::Cue => Turn::Cue,
        }
    }
}

/// Returns `json` with every text in it replaced, keys too. Its depth was limited when it was parsed.
fn map_json(json: &Json, with: &dyn Fn(&str) -> String) -> Json {
    match json {
        Json::String(text) => Json::String(with(text)),
        Json::Array(items) => items.iter().map(|item| map_json(item, with)).collect(),
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| (with(key), map_json(value, with)))
            .collect(),
        other => other.clone(),
    }
}

/// A tool as templates want it. A bare function schema is wrapped.
pub fn tool(text: &str) -> Result<Json, String> {
    let schema: Json =
        serde_json::from_str(text).map_err(|e| format!("a tool's schema is not JSON: {e}"))?;
    let wrapped = if schema["function"].is_object() {
        schema
    } else {
        json!({"type": "function", "function": schema})
    };
    match wrapped["function"]["name"].as_str() {
        Some(name) if !name.is_empty() => Ok(wrapped),
        _ => Err("a tool's schema has no name; give {\"name\": …, \"description\": …, \"parameters\": …}".into()),
    }
}

/// A call of an assistant's turn: `{"name": …, "arguments": {…}, "id": …}`. Arguments and id may be missing.
pub fn call(text: &str) -> Result<Call, String> {
    let call: Json = serde_json::from_str(text).map_err(|e| format!("a call is not JSON: {e}"))?;
    let name = match call["name"].as_str() {
        Some(name) if !name.is_empty() => name.to_string(),
        _ => return Err("a call has no name; give {\"name\": …, \"arguments\": {…}}".into()),
    };
    let arguments = match &call["arguments"] {
        Json::Null => json!({}),
        arguments @ Json::Object(_) => arguments.clone(),
        _ => {
            return Err(format!(
                "the arguments of a call of '{name}' are not a JSON object"
            ))
        }
    };
    let id = call["id"].as_str().unwrap_or_default().to_string();
    Ok(Call {
        name,
        id,
        arguments,
    })
}
