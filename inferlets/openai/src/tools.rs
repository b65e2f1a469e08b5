//! Tools and the form of answers: the constraints of a generation, and the calls that are found in its text.

use crate::api_error::ApiError;
use inferlet::model::Model;
use inferlet::{tools, AnyJson, Generator, GrammarConstraint, JsonSchema, Schema};
use serde_json::{json, Map, Value};

type Parsed<T> = std::result::Result<T, ApiError>;

const MAX_TOOLS: usize = 128;

/// The form that an answer must have.
#[derive(Default)]
pub enum Form {
    #[default]
    Text,
    Json,
    Schema(String),
    /// A call of one of these tools, which are JSON texts.
    Call(Vec<String>),
}

/// A call of a tool: its name, and its arguments as JSON.
pub type Call = (String, String);

impl Form {
    /// Reads `response_format`, and checks that a schema can be used.
    pub fn parse(fields: &Map<String, Value>, model: &Model) -> Parsed<Form> {
        let form = &fields.get("response_format").cloned().unwrap_or_default();
        let wrong = |text: String| ApiError::invalid("response_format", text);
        match form["type"].as_str() {
            None if form.is_null() => Ok(Form::Text),
            Some("text") => Ok(Form::Text),
            Some("json_object") => Ok(Form::Json),
            Some("json_schema") => {
                let schema = &form["json_schema"]["schema"];
                if !schema.is_object() {
                    return Err(wrong(
                        "'response_format.json_schema.schema' must be a JSON Schema".into(),
                    ));
                }
                let schema = schema.to_string();
                JsonSchema(&schema).build_constraint(model).map_err(wrong)?;
                Ok(Form::Schema(schema))
            }
            _ => Err(wrong(format!(
                "'response_format' must have the type text, json_object or json_schema, not {form}"
            ))),
        }
    }

    pub fn constrain<'a>(
        &self,
        generator: Generator<'a>,
        model: &Model,
    ) -> inferlet::Result<Generator<'a>> {
        match self {
            Form::Text => Ok(generator),
            Form::Json => generator.constrain_with(AnyJson),
            Form::Schema(schema) => generator.constrain_with(JsonSchema(schema)),
            Form::Call(schemas) => {
                let matcher = tools::native_matcher(model, schemas)
                    .ok_or("this model has no grammar of tool calls")?;
                Ok(generator.constrain(GrammarConstraint::new(matcher)))
            }
        }
    }
}

/// Reads `tools` and `tool_choice`: the tools that the model is told about, and those of which it must call one.
pub fn parse(fields: &Map<String, Value>) -> Parsed<(Vec<String>, Option<Vec<String>>)> {
    let empty = Vec::new();
    let list = match fields.get("tools") {
        None | Some(Value::Null) => &empty,
        Some(Value::Array(list)) if list.len() <= MAX_TOOLS => list,
        Some(_) => {
            return Err(ApiError::invalid(
                "tools",
                format!("'tools' must be a list of at most {MAX_TOOLS} tools"),
            ))
        }
    };
    for (index, tool) in list.iter().enumerate() {
        if tool["type"] != "function" || !tool["function"]["name"].is_string() {
            let place = format!("tools[{index}]");
            return Err(ApiError::invalid(
                &place,
                "a tool must be {\"type\": \"function\", \"function\": {\"name\": …}}",
            ));
        }
    }
    let all: Vec<String> = list.iter().map(Value::to_string).collect();
    let choice = fields.get("tool_choice").cloned().unwrap_or_default();
    let named = choice["function"]["name"].as_str();
    match (choice.as_str(), named) {
        (None, None) if choice.is_null() => Ok((all, None)),
        (Some("auto"), _) => Ok((all, None)),
        (Some("none"), _) => Ok((Vec::new(), None)),
        (Some("required"), _) if !all.is_empty() => Ok((all.clone(), Some(all))),
        (None, Some(name)) => {
            let chosen: Vec<String> = list
                .iter()
                .filter(|tool| tool["function"]["name"] == name)
                .map(Value::to_string)
                .collect();
            if chosen.is_empty() {
                return Err(ApiError::invalid(
                    "tool_choice",
                    format!("no tool is named '{name}'"),
                ));
            }
            Ok((all, Some(chosen)))
        }
        _ => Err(ApiError::invalid(
            "tool_choice",
            "'tool_choice' must be none, auto, required (with tools) or name a tool",
        )),
    }
}

/// Collects the calls of an answer. A call whose arguments are not JSON does not count.
pub struct Calls {
    decoder: tools::Decoder,
    pub found: Vec<Call>,
}

impl Calls {
    pub fn new(model: &Model) -> Calls {
        Calls {
            decoder: tools::Decoder::new(model),
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
            if serde_json::from_str::<Value>(&arguments).is_ok_and(|value| value.is_object()) {
                self.found.push((name, arguments));
            }
            event = self.decoder.feed(&[])?;
        }
        Ok(())
    }
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
