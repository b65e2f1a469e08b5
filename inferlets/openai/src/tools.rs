//! The tools of a request, and the calls that are found in the text of an answer.

use crate::api_error::ApiError;
use crate::forms::usable;
use inferlet::model::Model;
use inferlet::tools;
use serde_json::{json, Map, Value};
use std::cell::OnceCell;
use std::collections::HashSet;

type Parsed<T> = std::result::Result<T, ApiError>;

const MAX_TOOLS: usize = 1024;
/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 128;
const CHOICES: &str =
    "'tool_choice' must be none, auto, required (with tools), name a tool or list allowed_tools";

/// A call of a tool: its name, and its arguments as JSON.
pub type Call = (String, String);

/// The tools of a request.
#[derive(Default)]
pub struct Tools {
    /// The tools that the model is told about, as JSON texts.
    pub told: Vec<String>,
    /// The tools that the model may call.
    pub callable: Vec<String>,
    /// The names of those that it may call.
    pub names: Vec<String>,
    /// Whether it must call one.
    pub must: bool,
    /// Whether it may call at most one.
    pub one_call: bool,
    /// The result of `held`, once it was called.
    held: OnceCell<Option<Vec<String>>>,
}

impl Tools {
    /// The tools that it may call, with schemas of which a grammar can be made.
    pub fn held(&self, model: &Model) -> Option<&[String]> {
        let held = self.held.get_or_init(|| usable(model, &self.callable));
        held.as_deref()
    }
}

/// Reads `tools`, `tool_choice` and `parallel_tool_calls`.
pub fn parse(fields: &Map<String, Value>) -> Parsed<Tools> {
    let list = list(fields)?;
    let one_call = fields.get("parallel_tool_calls") == Some(&Value::Bool(false));
    if !boolean_or_none(fields.get("parallel_tool_calls")) {
        return Err(ApiError::invalid(
            "parallel_tool_calls",
            "'parallel_tool_calls' must be true or false",
        ));
    }
    let names: Vec<&str> = list
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    let choice = fields.get("tool_choice").cloned().unwrap_or_default();
    let (allowed, must) = allowed(&choice, &names)?;
    let is_named = choice["function"]["name"].is_string();
    if allowed.is_empty() {
        return Ok(Tools::default());
    }
    let callable = list
        .iter()
        .filter(|tool| allowed.iter().any(|name| tool["function"]["name"] == *name))
        .map(Value::to_string);
    Ok(Tools {
        told: list.iter().map(Value::to_string).collect(),
        callable: callable.collect(),
        names: allowed.iter().map(|name| name.to_string()).collect(),
        must,
        one_call: one_call || is_named,
        held: OnceCell::new(),
    })
}

fn boolean_or_none(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null | Value::Bool(_)))
}

fn list(fields: &Map<String, Value>) -> Parsed<Vec<Value>> {
    let list = match fields.get("tools") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) if list.len() <= MAX_TOOLS => list,
        Some(_) => {
            return Err(ApiError::invalid(
                "tools",
                format!("'tools' must be a list of at most {MAX_TOOLS} tools"),
            ))
        }
    };
    let mut names = HashSet::new();
    for (index, tool) in list.iter().enumerate() {
        let place = format!("tools[{index}]");
        let function = &tool["function"];
        if let Some(kind) = tool["type"].as_str().filter(|kind| *kind != "function") {
            let text = format!(
                "a tool of the type '{kind}' is not served: only functions, which the client runs, are"
            );
            return Err(ApiError::invalid(&place, text));
        }
        let named = function["name"].as_str();
        let Some(name) = named.filter(|_| tool["type"] == "function") else {
            return Err(ApiError::invalid(
                &place,
                "a tool must be {\"type\": \"function\", \"function\": {\"name\": …}}",
            ));
        };
        let wrong = |field: &str, text: String| {
            Err(ApiError::invalid(
                &format!("{place}.function.{field}"),
                text,
            ))
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if !(1..=MAX_NAME).contains(&name.len()) || !name.bytes().all(is_plain) {
            let text = format!(
                "the name of a tool must have 1 to {MAX_NAME} letters, digits, _ and -, not '{name}'"
            );
            return wrong("name", text);
        }
        if !names.insert(name) {
            return wrong("name", format!("two tools have the name '{name}'"));
        }
        let (about, parameters) = (&function["description"], &function["parameters"]);
        if !about.is_null() && !about.is_string() {
            return wrong("description", format!("must be a text, not {about}"));
        }
        if !parameters.is_null() && !parameters.is_object() {
            return wrong(
                "parameters",
                format!("must be a JSON Schema, not {parameters}"),
            );
        }
    }
    Ok(list.clone())
}

/// Reads `tool_choice`: the names of the tools that may be called, and whether one of them must be.
fn allowed<'a>(choice: &Value, names: &[&'a str]) -> Parsed<(Vec<&'a str>, bool)> {
    let wrong = |text: String| ApiError::invalid("tool_choice", text);
    let known = |asked: &Value| {
        let found = names.iter().find(|name| asked == **name);
        found
            .copied()
            .ok_or_else(|| wrong(format!("no tool is named {asked}")))
    };
    let mode = |mode: &Value, of: Vec<&'a str>| match mode.as_str() {
        Some("auto") => Ok((of, false)),
        Some("required") if !of.is_empty() => Ok((of, true)),
        _ => Err(wrong(CHOICES.into())),
    };
    match (choice, choice["type"].as_str()) {
        (Value::Null, _) => Ok((names.to_vec(), false)),
        (Value::String(word), _) if word == "none" => Ok((Vec::new(), false)),
        (_, Some("allowed_tools")) => {
            // `/v1/responses` has the same fields without the object around them.
            let nested = &choice["allowed_tools"];
            let fields = if nested.is_object() { nested } else { choice };
            let tools = fields["tools"].as_array().map_or(&[][..], Vec::as_slice);
            let one = |tool: &Value| match tool.get("function") {
                Some(function) => known(&function["name"]),
                None => known(&tool["name"]),
            };
            let listed: Vec<&str> = tools.iter().map(one).collect::<Parsed<_>>()?;
            mode(&fields["mode"], listed)
        }
        _ if choice["function"]["name"].is_string() => {
            Ok((vec![known(&choice["function"]["name"])?], true))
        }
        _ => mode(choice, names.to_vec()),
    }
}

/// Collects the calls of an answer. A call of a tool that is not to be called does not count, nor one whose arguments are
/// not JSON.
pub struct Calls<'a> {
    decoder: tools::Decoder,
    tools: &'a Tools,
    pub found: Vec<Call>,
}

impl<'a> Calls<'a> {
    pub fn new(model: &Model, tools: &'a Tools) -> Calls<'a> {
        Calls {
            decoder: tools::Decoder::new(model),
            tools,
            found: Vec::new(),
        }
    }

    /// Whether a call has begun but is not complete.
    pub fn is_assembling(&self) -> bool {
        self.decoder.is_assembling()
    }

    pub fn feed(&mut self, tokens: &[u32]) -> inferlet::Result<()> {
        let mut event = self.decoder.feed(tokens)?;
        while let tools::Event::Call(name, arguments) = event {
            let given = serde_json::from_str::<Value>(&arguments);
            let room = !self.tools.one_call || self.found.is_empty();
            if room
                && self.tools.names.contains(&name)
                && given.is_ok_and(|value| value.is_object())
            {
                self.found.push((name, arguments));
            }
            event = self.decoder.feed(&[])?;
        }
        Ok(())
    }
}

/// Whether the model may write a call that begins with this text, without a mark before it.
pub fn without_mark(model: &Model, beginning: &str) -> bool {
    let mut decoder = tools::Decoder::new(model);
    let fed = decoder.feed(&model.tokenizer().encode(beginning));
    fed.is_ok() && decoder.is_assembling()
}

/// The calls in the form of the API. Their ids are unique within an instance.
pub fn json(calls: &[Call], choice: usize, indexed: bool) -> Value {
    let one = |(index, (name, arguments)): (usize, &Call)| {
        let id = format!("call_{}_{choice}_{index}", inferlet::runtime::instance_id());
        let mut call = json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        if indexed {
            call["index"] = json!(index);
        }
        call
    };
    calls.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(choice: Value) -> Parsed<Tools> {
        let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
        let fields = json!({ "tools": [tool("a"), tool("b")], "tool_choice": choice });
        parse(fields.as_object().unwrap())
    }

    #[test]
    fn every_form_of_the_choice() {
        let forms = [
            (json!(null), vec!["a", "b"], false),
            (json!("auto"), vec!["a", "b"], false),
            (json!("required"), vec!["a", "b"], true),
            (
                json!({ "type": "function", "function": { "name": "b" } }),
                vec!["b"],
                true,
            ),
            (
                json!({ "type": "allowed_tools", "allowed_tools": {
                    "mode": "auto", "tools": [{ "type": "function", "function": { "name": "a" } }],
                }}),
                vec!["a"],
                false,
            ),
            (
                json!({ "type": "allowed_tools", "mode": "required",
                    "tools": [{ "type": "function", "name": "b" }] }),
                vec!["b"],
                true,
            ),
        ];
        for (choice, names, must) in forms {
            let tools = read(choice.clone()).unwrap();
            assert_eq!(tools.names, names, "{choice}");
            assert_eq!(tools.must, must, "{choice}");
            assert_eq!(tools.told.len(), 2, "{choice}");
        }
        assert!(read(json!("none")).unwrap().told.is_empty());
        for wrong in [
            json!("sometimes"),
            json!({ "type": "function", "function": { "name": "c" } }),
            json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": [{}] } }),
            json!(5),
        ] {
            assert!(read(wrong).is_err());
        }
    }
}
