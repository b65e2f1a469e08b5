//! The grammar of the tool calls of a model: its own marks around the names and arguments of the tools that it was given.
use super::calls::Calls;
use super::specials::Specials;
use crate::grammar::{checked_schema, Error, Grammar};
use serde_json::{json, Value as Json};

/// A Lark grammar that begins with the mark of a call. None if there are no tools.
pub fn grammar(
    calls: &Calls,
    specials: &Specials,
    tools: &[Json],
) -> Result<Option<Grammar>, Error> {
    if tools.is_empty() {
        return Ok(None);
    }
    let writer = Writer { specials };
    let tools: Vec<Tool> = tools.iter().map(Tool::of).collect();
    let mut rules = Vec::new();
    for (number, tool) in tools.iter().enumerate() {
        let call = writer.call(calls, tool).map_err(|e| {
            Error::invalid(format!("the parameters of the tool '{}': {e}", tool.name))
        })?;
        rules.push(format!("call_{number}: {call}"));
    }
    let names: Vec<String> = (0..tools.len()).map(|i| format!("call_{i}")).collect();
    let (open, close) = match calls {
        Calls::Object { open, close, .. }
        | Calls::Named { open, close, .. }
        | Calls::Tagged { open, close, .. }
        | Calls::Python { open, close } => (open, close),
    };
    let parts = [
        writer.text(open),
        "SPACE call SPACE".into(),
        writer.text(close),
    ];
    let source = format!(
        "start: {}\ncall: {}\n{}\nSPACE: /[ \\n]{{0,2}}/\n",
        parts.join(" "),
        names.join(" | "),
        rules.join("\n")
    );
    Grammar::from_lark(&source).map(Some)
}

struct Tool {
    name: String,
    parameters: Json,
}

impl Tool {
    fn of(tool: &Json) -> Tool {
        let function = &tool["function"];
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        Tool {
            name: function["name"].as_str().unwrap_or_default().into(),
            parameters: match &function["parameters"] {
                Json::Null => none,
                parameters => parameters.clone(),
            },
        }
    }

    /// The schema of one of the properties by itself.
    fn alone(&self, property: &Json) -> Json {
        let mut schema = property.clone();
        for key in ["$defs", "definitions"] {
            if let (Some(entries), Some(named)) = (schema.as_object_mut(), self.parameters.get(key))
            {
                entries.entry(key).or_insert_with(|| named.clone());
            }
        }
        schema
    }

    /// The properties in their order, each with its schema and whether it must be there.
    fn properties(&self) -> Vec<(&String, &Json, bool)> {
        let required = self.parameters["required"].as_array();
        let must = |key: &str| required.is_some_and(|keys| keys.iter().any(|k| k == key));
        match self.parameters["properties"].as_object() {
            Some(all) => all.iter().map(|(k, v)| (k, v, must(k))).collect(),
            None => Vec::new(),
        }
    }
}

struct Writer<'a> {
    specials: &'a Specials,
}

impl Writer<'_> {
    /// A text in which special tokens' names are those tokens.
    fn text(&self, text: &str) -> String {
        let mut parts = Vec::new();
        let mut from = 0;
        for (start, end, id) in self.specials.all(text) {
            parts.push(literal(&text[from..start]));
            parts.push(format!("<[{id}]>"));
            from = end;
        }
        parts.push(literal(&text[from..]));
        parts.retain(|part| !part.is_empty());
        parts.join(" ")
    }

    fn call(&self, calls: &Calls, tool: &Tool) -> Result<String, Error> {
        match calls {
            Calls::Object {
                name_key,
                arguments_key,
                ..
            } => object(tool, name_key, arguments_key),
            Calls::Named { between, .. } => Ok([
                literal(&tool.name),
                self.text(between),
                schema(&tool.parameters)?,
            ]
            .join(" ")),
            Calls::Tagged {
                first,
                middle,
                last,
                ..
            } => {
                let mut text = literal(&tool.name);
                for (key, value, must) in tool.properties() {
                    let parts = [
                        "SPACE".into(),
                        self.text(first),
                        literal(key),
                        self.text(middle),
                        tagged_value(&tool.alone(value))?,
                        self.text(last),
                    ];
                    let pair = parts.join(" ");
                    text += &if must {
                        format!(" {pair}")
                    } else {
                        format!(" ({pair})?")
                    };
                }
                Ok(text)
            }
            Calls::Python { .. } => {
                let open = literal(&format!("[{}(", tool.name));
                Ok(format!(
                    "{open} {} {}",
                    python_arguments(tool)?,
                    literal(")]")
                ))
            }
        }
    }
}

fn literal(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    Json::from(text).to_string()
}

fn schema(schema: &Json) -> Result<String, Error> {
    Ok(format!("%json {}", checked_schema(schema)?))
}

fn object(tool: &Tool, name_key: &str, arguments_key: &str) -> Result<String, Error> {
    let mut parameters = tool.parameters.clone();
    let mut whole = json!({"type": "object", "additionalProperties": false});
    // References begin at the whole document.
    for key in ["$defs", "definitions"] {
        if let Some(named) = parameters.as_object_mut().and_then(|all| all.remove(key)) {
            whole[key] = named;
        }
    }
    let properties = if name_key.is_empty() {
        json!({ tool.name.as_str(): parameters })
    } else {
        json!({ name_key: {"const": tool.name}, arguments_key: parameters })
    };
    let keys: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flatten()
        .map(|e| e.0)
        .collect();
    whole["required"] = json!(keys);
    whole["properties"] = properties;
    schema(&whole)
}

/// A text goes as it is, without a tag; everything else as JSON.
fn tagged_value(value: &Json) -> Result<String, Error> {
    match (value["type"].as_str(), value["enum"].as_array()) {
        (_, Some(choices)) => {
            let choices = choices.iter().map(|choice| match choice.as_str() {
                Some(text) => literal(text),
                None => literal(&choice.to_string()),
            });
            Ok(format!("({})", choices.collect::<Vec<_>>().join(" | ")))
        }
        (Some("string"), None) => Ok("/[^<]*/".into()),
        _ => schema(value),
    }
}

/// Keyword arguments in their order, first those that must be there. Python writes constants differently from JSON.
fn python_arguments(tool: &Tool) -> Result<String, Error> {
    let mut text = String::new();
    let properties = tool.properties();
    let (must, may): (Vec<_>, Vec<_>) = properties.into_iter().partition(|(_, _, must)| *must);
    for (number, (key, value, must)) in must.iter().chain(&may).enumerate() {
        let value = match value["type"].as_str() {
            Some("boolean") => "(\"True\" | \"False\")".into(),
            Some("null") => "\"None\"".into(),
            _ => schema(&tool.alone(value))?,
        };
        let comma = if number > 0 { "\", \" " } else { "" };
        let pair = format!("{comma}{} {value}", literal(&format!("{key}=")));
        text += &if *must {
            format!(" {pair}")
        } else {
            format!(" ({pair})?")
        };
    }
    Ok(text)
}
