//! The grammar of the tool calls of a model: its own marks around the names and arguments of the tools that it was given.
use super::call_values::{Field, Parameters, Value};
use super::calls::Calls;
use super::specials::Specials;
use crate::grammar::{Budget, Error, Grammar};
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
    let budget = Budget::default();
    let mut writer = Writer {
        specials,
        budget: &budget,
        rules: Vec::new(),
    };
    for (number, tool) in tools.iter().enumerate() {
        writer.tool(calls, number, tool)?;
    }
    let names: Vec<String> = (0..tools.len()).map(|i| format!("call_{i}")).collect();
    let (open, close) = match calls {
        Calls::Object { open, close, .. }
        | Calls::Named { open, close, .. }
        | Calls::Tagged { open, close, .. }
        | Calls::Python { open, close } => (open, close),
    };
    let body = match calls {
        Calls::Object { list: true, .. } => {
            r#"(call | "[" SPACE call (SPACE "," SPACE call)* SPACE "]")"#
        }
        _ => "call",
    };
    // A mark that is a word follows a blank, which belongs to the word's first token.
    let blank = if open.starts_with(char::is_alphanumeric) {
        "\" \"? "
    } else {
        ""
    };
    let parts = [
        format!("{blank}{}", writer.text(open)),
        format!("SPACE {body} SPACE"),
        writer.text(close),
    ];
    let source = format!(
        "start: {}\ncall: {}\n{}\nSPACE: /[ \\n]{{0,2}}/\n",
        parts.join(" "),
        names.join(" | "),
        writer.rules.join("\n")
    );
    let described = tools.iter().map(|tool| {
        let (name, parameters) = described(tool);
        (name.to_string(), parameters.to_string())
    });
    Grammar::of_tools(&source, described.collect()).map(Some)
}

/// The name of a tool, and the schema of its parameters.
fn described(tool: &Json) -> (&str, &Json) {
    let function = &tool["function"];
    let name = function["name"].as_str().unwrap_or_default();
    (name, &function["parameters"])
}

struct Writer<'a> {
    specials: &'a Specials,
    /// For the schemas of all tools.
    budget: &'a Budget,
    rules: Vec<String>,
}

impl Writer<'_> {
    /// Adds the rules of a tool's calls.
    fn tool(&mut self, calls: &Calls, number: usize, tool: &Json) -> Result<(), Error> {
        let (name, parameters) = described(tool);
        let call = Parameters::of(parameters, self.budget)
            .and_then(|parameters| self.call(calls, number, name, &parameters))
            .map_err(|error| Error::of_tool(name, error))?;
        self.rules.push(format!("call_{number}: {call}"));
        Ok(())
    }

    fn text(&self, text: &str) -> String {
        text_rule(text, self.specials)
    }

    fn schema(&self, schema: &Json) -> Result<String, Error> {
        Ok(format!(
            "%json {}",
            Parameters::checked(schema, self.budget)?
        ))
    }

    fn call(
        &mut self,
        calls: &Calls,
        number: usize,
        name: &str,
        parameters: &Parameters,
    ) -> Result<String, Error> {
        let rule = format!("call_{number}");
        match calls {
            Calls::Object {
                name_key,
                arguments_key,
                ..
            } => self.schema(&object(name, parameters, name_key, arguments_key)),
            Calls::Named { between, .. } => {
                let parts = [
                    literal(name),
                    self.text(between),
                    self.schema(&parameters.whole())?,
                ];
                Ok(parts.join(" "))
            }
            Calls::Tagged { .. } => self.tagged(calls, &rule, name, parameters),
            Calls::Python { .. } => {
                let arguments = self.python(&rule, parameters)?;
                let (open, close) = (literal(&format!("[{name}(")), literal(")]"));
                Ok(format!("{open} {arguments} {close}"))
            }
        }
    }

    fn tagged(
        &mut self,
        calls: &Calls,
        rule: &str,
        name: &str,
        parameters: &Parameters,
    ) -> Result<String, Error> {
        let Calls::Tagged {
            first,
            middle,
            last,
            lines,
            ..
        } = calls
        else {
            return Ok(String::new());
        };
        let line = if *lines { "\n" } else { "" };
        let mut text = literal(name);
        for (number, field) in parameters.fields()?.iter().enumerate() {
            let value =
                self.tagged_value(&format!("{rule}_{number}"), field, parameters, line, last)?;
            let parts = [
                "SPACE".into(),
                self.text(first),
                literal(&field.name),
                self.text(&format!("{middle}{line}")),
                value,
            ];
            let pair = parts.join(" ");
            text += &if field.must {
                format!(" {pair}")
            } else {
                format!(" ({pair})?")
            };
        }
        Ok(text)
    }

    /// A value with the mark behind it: a text as it is, everything else as JSON.
    fn tagged_value(
        &mut self,
        rule: &str,
        field: &Field,
        parameters: &Parameters,
        line: &str,
        last: &str,
    ) -> Result<String, Error> {
        let (mark, rest) = parts(last, self.specials);
        let end = literal(&format!("{line}{mark}"));
        let mut options = Vec::new();
        for (number, value) in parameters.values(field)?.iter().enumerate() {
            options.push(match value {
                Value::Constant(text) => format!("{} {end} {rest}", literal(text)),
                Value::Json(schema) => format!("{} {end} {rest}", self.schema(schema)?),
                Value::Text(expressions) => {
                    // The lexer takes the longest match. So the mark is in the lexeme, once, at its end.
                    let mut text = expressions.join(" & ");
                    if !mark.is_empty() {
                        text += &format!(" & ~/(?s:.*){}(?s:.*)/", quoted(&mark));
                    }
                    let name = format!("{}_{number}", rule.to_uppercase());
                    self.rules.push(format!("{name}: ({text}) {end}"));
                    format!("{name} {rest}")
                }
            });
        }
        Ok(format!("({})", options.join(" | ")))
    }

    /// Keyword arguments in their order, first those that must be there.
    fn python(&mut self, rule: &str, parameters: &Parameters) -> Result<String, Error> {
        let fields = parameters.fields()?;
        let (must, may): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.must);
        let mut pairs = Vec::new();
        for field in must.iter().chain(&may) {
            let mut options = Vec::new();
            for value in parameters.python_values(field)? {
                options.push(match value {
                    Value::Json(schema) => self.schema(&schema)?,
                    Value::Constant(text) => literal(&text),
                    Value::Text(_) => continue,
                });
            }
            let key = literal(&format!("{}=", field.name));
            pairs.push(format!("{key} ({})", options.join(" | ")));
        }
        let may_be: Vec<String> = pairs.split_off(must.len());
        if may_be.is_empty() {
            return Ok(pairs.join(" \", \" "));
        }
        // The text that may follow an argument: the next ones, each after a comma.
        for (number, pair) in may_be.iter().enumerate() {
            let next = match number + 1 < may_be.len() {
                true => format!(" {rule}_after_{}", number + 1),
                false => String::new(),
            };
            self.rules
                .push(format!("{rule}_after_{number}: (\", \" {pair})?{next}"));
        }
        if !pairs.is_empty() {
            return Ok(format!("{} {rule}_after_0", pairs.join(" \", \" ")));
        }
        let firsts =
            may_be
                .iter()
                .enumerate()
                .map(|(number, pair)| match number + 1 < may_be.len() {
                    true => format!("{pair} {rule}_after_{}", number + 1),
                    false => pair.clone(),
                });
        Ok(format!("({})?", firsts.collect::<Vec<_>>().join(" | ")))
    }
}

/// A text in which special tokens' names are those tokens, as a part of a rule of Lark.
pub fn text_rule(text: &str, specials: &Specials) -> String {
    let (literals, rest) = parts(text, specials);
    [literal(&literals), rest].join(" ").trim().to_string()
}

/// The text before the first special token, and the rest as Lark.
fn parts(text: &str, specials: &Specials) -> (String, String) {
    let mut parts = Vec::new();
    let mut from = 0;
    let all = specials.all(text);
    let first = all.first().map_or(text.len(), |(start, ..)| *start);
    for (start, end, id) in all {
        if start > first {
            parts.push(literal(&text[from..start]));
        }
        parts.push(format!("<[{id}]>"));
        from = end;
    }
    if from > 0 {
        parts.push(literal(&text[from..]));
    }
    parts.retain(|part| !part.is_empty());
    (text[..first].to_string(), parts.join(" "))
}

fn literal(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    Json::from(text).to_string()
}

/// A text as a part of a regular expression of Lark.
fn quoted(text: &str) -> String {
    let character = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_string(),
        false => format!("\\x{{{:X}}}", c as u32),
    };
    text.chars().map(character).collect()
}

fn object(name: &str, parameters: &Parameters, name_key: &str, arguments_key: &str) -> Json {
    let mut whole = parameters.whole();
    let arguments = json!({"$ref": whole["$ref"].take()});
    let properties = if name_key.is_empty() {
        json!({ name: arguments })
    } else {
        json!({ name_key: {"const": name}, arguments_key: arguments })
    };
    let keys: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(|all| all.keys())
        .collect();
    json!({
        "type": "object",
        "required": keys,
        "properties": properties,
        "additionalProperties": false,
        "$defs": whole["$defs"].take(),
    })
}
