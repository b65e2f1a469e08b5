//! The form of answers: free text, JSON, or calls of tools. Grammars make sure of it.

use crate::api_error::ApiError;
use inferlet::inference::Grammar;
use inferlet::model::Model;
use inferlet::pie::plus::fallible::create_tool_matcher;
use inferlet::{tools, AnyJson, Constrain, GrammarConstraint, JsonSchema, Schema};
use serde_json::{json, Map, Value};

type Parsed<T> = std::result::Result<T, ApiError>;

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

    /// The form of an answer that must call one of these tools. Fails if no grammar can be made of them.
    pub fn call_of(schemas: &[String], model: &Model) -> Parsed<Form> {
        match create_tool_matcher(model.inner(), schemas) {
            Ok(_) => Ok(Form::Call(schemas.to_vec())),
            Err(error) => Err(ApiError::invalid("tools", error)),
        }
    }

    /// The grammar of the form. Text has none. An answer that must call tools has one call, or `several`.
    pub fn constraint(
        &self,
        model: &Model,
        several: bool,
    ) -> inferlet::Result<Option<GrammarConstraint>> {
        Ok(Some(match self {
            Form::Text => return Ok(None),
            Form::Json => AnyJson.build_constraint(model)?,
            Form::Schema(schema) => JsonSchema(schema).build_constraint(model)?,
            Form::Call(schemas) => {
                calls(model, schemas, several)?.ok_or("this model has no grammar of tool calls")?
            }
        }))
    }
}

/// The grammar of one call, or of several calls in a row. None if the model has none.
pub fn calls(
    model: &Model,
    schemas: &[String],
    several: bool,
) -> inferlet::Result<Option<GrammarConstraint>> {
    let Some(one) = tools::try_native_matcher(model, schemas)? else {
        return Ok(None);
    };
    let in_a_row = || {
        let source = tools::native_grammar(model, schemas)?.to_string();
        Grammar::from_ebnf(&repeated(&source)?)
            .and_then(|grammar| (&grammar).build_constraint(model))
            .ok()
    };
    let several = several.then(in_a_row).flatten();
    Ok(Some(several.unwrap_or_else(|| GrammarConstraint::new(one))))
}

/// The grammar of one or more texts of a Lark grammar of the engine, which has the rules `start` and `SPACE`.
fn repeated(source: &str) -> Option<String> {
    let rules = source.strip_prefix("start:")?;
    Some(format!(
        "start: one_call (SPACE one_call)*\none_call:{rules}"
    ))
}

/// An answer that has either of two forms. The model chooses as it writes.
pub struct Either {
    /// The forms that the text still has.
    ways: Vec<GrammarConstraint>,
    mask: Vec<u32>,
    failure: Option<String>,
}

impl Either {
    pub fn new(one: GrammarConstraint, other: GrammarConstraint) -> Either {
        Either {
            ways: vec![one, other],
            mask: Vec::new(),
            failure: None,
        }
    }
}

impl Constrain for Either {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        let (mut mask, mut failure) = (None, None);
        self.ways.retain_mut(|way| {
            let own = way.step(accepted).to_vec();
            if let Some(text) = way.failure() {
                failure = Some(text.to_string());
                return false;
            }
            mask = Some(match mask.take() {
                Some(mask) => union(mask, own),
                None => own,
            });
            true
        });
        if self.ways.is_empty() && self.failure.is_none() {
            self.failure = failure;
        }
        self.mask = mask.unwrap_or_default();
        &self.mask
    }

    fn is_finished(&self) -> bool {
        self.ways.iter().any(GrammarConstraint::is_finished)
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn name(&self) -> String {
        "the form of the answer, or of a tool call".into()
    }
}

/// The tokens that one of two masks allows. Masks are run lengths of forbidden and allowed tokens, beginning with
/// forbidden ones; tokens past the end are forbidden. An empty mask allows all tokens.
fn union(one: Vec<u32>, other: Vec<u32>) -> Vec<u32> {
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let mut edges: Vec<(u64, i32)> = Vec::new(); // where an allowed run begins (1) or ends (-1)
    for mask in [one, other] {
        let mut at = 0;
        for (index, run) in mask.iter().enumerate() {
            if index % 2 == 1 && *run > 0 {
                edges.push((at, 1));
                edges.push((at + u64::from(*run), -1));
            }
            at += u64::from(*run);
        }
    }
    edges.sort_by_key(|(at, step)| (*at, -step)); // a run that begins where another one ends goes on
    let (mut runs, mut depth, mut done) = (Vec::new(), 0, 0);
    for (at, step) in edges {
        if depth == 0 || depth + step == 0 {
            runs.push((at - done) as u32);
            done = at;
        }
        depth += step;
    }
    if runs.is_empty() {
        runs.push(u32::MAX); // neither allows any
    }
    runs
}

/// The tools, with schemas of which a grammar can be made: in place of a schema that the engine refuses, only the names
/// of its properties and their types are left. None if the model has no grammar of calls.
pub fn usable(model: &Model, schemas: &[String]) -> Option<Vec<String>> {
    let compiles = |schemas: &[String]| create_tool_matcher(model.inner(), schemas).is_ok();
    let all = schemas.to_vec();
    if compiles(&all) {
        return Some(all);
    }
    let one = |schema: &String| match compiles(std::slice::from_ref(schema)) {
        true => schema.clone(),
        false => loosened(schema),
    };
    let some: Vec<String> = all.iter().map(one).collect();
    if compiles(&some) {
        return Some(some);
    }
    let none: Vec<String> = all.iter().map(|schema| loosened(schema)).collect(); // together they were too large
    compiles(&none).then_some(none)
}

/// A tool of the same name whose arguments are free.
fn loosened(schema: &str) -> String {
    const TYPES: &[&str] = &[
        "string", "number", "integer", "boolean", "array", "object", "null",
    ];
    let mut tool: Value = serde_json::from_str(schema).unwrap_or_default();
    let old = tool["function"]["parameters"].take();
    let one = |(name, property): (&String, &Value)| {
        let kind = property["type"].as_str();
        let kept = match kind.filter(|kind| TYPES.contains(kind)) {
            Some(kind) => json!({ "type": kind }),
            None => json!({}),
        };
        (name.clone(), kept)
    };
    let properties = old["properties"].as_object();
    let properties: Map<String, Value> = properties.into_iter().flatten().map(one).collect();
    let required = old["required"].as_array();
    let is_required = |name: &&String| {
        let names = required.into_iter().flatten();
        names.into_iter().any(|required| required == name.as_str())
    };
    let required: Vec<&String> = properties.keys().filter(is_required).collect();
    let schema = json!({ "type": "object", "required": required, "properties": &properties });
    tool["function"]["parameters"] = schema;
    tool.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_united() {
        assert_eq!(union(vec![1, 2], vec![5, 1]), [1, 2, 2, 1]);
        assert_eq!(union(vec![0, 3], vec![3, 2]), [0, 5]);
        assert_eq!(union(vec![2, 4, 1, 1], vec![3, 2]), [2, 4, 1, 1]);
        assert_eq!(union(vec![2, 4], vec![u32::MAX]), [2, 4]);
        assert_eq!(union(vec![9], vec![u32::MAX]), [u32::MAX]);
        assert!(union(vec![2, 4], vec![]).is_empty());
    }

    #[test]
    fn a_grammar_is_repeated() {
        let source = "start: \"<\" SPACE call\ncall: \"x\"\nSPACE: / ?/\n";
        let all = repeated(source).unwrap();
        assert!(all.starts_with("start: one_call (SPACE one_call)*\none_call: \"<\" SPACE call\n"));
        assert!(repeated("root ::= \"x\"").is_none());
    }

    #[test]
    fn a_schema_that_is_refused_keeps_its_names() {
        let tool = json!({ "type": "function", "function": { "name": "x", "parameters": {
            "type": "object", "required": ["a", 5], "properties": {
                "a": { "type": "string", "format": "unheard-of" },
                "b": { "type": "nonsense" },
            },
        }}});
        let loose: Value = serde_json::from_str(&loosened(&tool.to_string())).unwrap();
        assert_eq!(loose["function"]["name"], "x");
        let schema = json!({ "type": "object", "required": ["a"], "properties": {
            "a": { "type": "string" }, "b": {},
        }});
        assert_eq!(loose["function"]["parameters"], schema);
    }
}
