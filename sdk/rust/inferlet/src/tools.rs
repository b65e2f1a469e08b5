//! Tools in the model's native format.

use crate::inference::{Grammar, Matcher};
use crate::model::Model;
use crate::pie::instruct::tool_use as raw;
use crate::pie::plus::calls::assembling;
use crate::pie::plus::fallible;
use crate::schemars::JsonSchema;
use crate::Result;
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Value};
use std::any::Any;

/// Something that a model may call. `#[inferlet::tool]` implements it for a function.
pub trait Tool {
    /// The name that the model calls.
    fn name(&self) -> &str;
    /// A description of the tool, which the model reads.
    fn description(&self) -> &str;
    /// The JSON text that describes the tool to the model: its name, its description, and the schema of its arguments.
    /// The schema of the arguments alone will do too: `ctx.equip` adds the rest.
    fn schema(&self) -> String;
}

/// Reads the arguments of a tool. `#[inferlet::tool]` uses it.
#[doc(hidden)]
pub fn arguments<T: DeserializeOwned>(tool: &str, json: &str) -> Result<T> {
    let json = if json.trim().is_empty() { "{}" } else { json };
    serde_json::from_str(json)
        .map_err(|error| format!("the arguments of {tool} are wrong: {error}"))
}

/// Writes the answer of a tool: a `String` as it is, anything else as JSON. `#[inferlet::tool]` uses it.
#[doc(hidden)]
pub fn answer<T: Serialize + 'static>(answer: T) -> Result<String> {
    if let Some(text) = (&answer as &dyn Any).downcast_ref::<String>() {
        return Ok(text.clone());
    }
    serde_json::to_string(&answer)
        .map_err(|error| format!("the answer cannot be written as JSON: {error}"))
}

/// The whole description of a tool, which may know the schema of its arguments alone.
pub(crate) fn described(tool: &dyn Tool) -> String {
    let schema = tool.schema();
    let Ok(Value::Object(entries)) = serde_json::from_str(&schema) else { return schema };
    if ["name", "function", "parameters"].iter().any(|key| entries.contains_key(*key)) {
        return schema;
    }
    // The text of the schema stays as it is: a Value would sort its keys.
    let (name, description) = (json!(tool.name()), json!(tool.description()));
    format!("{{\"name\": {name}, \"description\": {description}, \"parameters\": {schema}}}")
}

/// Describes a tool as JSON. `#[inferlet::tool]` uses it.
#[doc(hidden)]
pub fn schema<T: JsonSchema>(name: &str, description: &str) -> String {
    let mut parameters = crate::generator::schema_value::<T>();
    if let Some(entries) = parameters.as_object_mut() {
        entries.remove("$schema");
        entries.remove("title");
        entries.entry("properties").or_insert_with(|| json!({}));
    }
    json!({ "name": name, "description": description, "parameters": parameters }).to_string()
}

/// The content of a batch of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// No call is complete; [`Decoder::is_assembling`] tells whether one has begun.
    Start,
    /// A complete call: the tool's name and its arguments as JSON.
    Call(String, String),
}

/// A call of a tool in an earlier turn; see [`Context::assistant_calls`](crate::Context::assistant_calls).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The tool's name.
    pub name: String,
    /// The arguments, as the text of a JSON object. An empty text stands for no arguments.
    pub arguments: String,
    /// Tells several calls apart. It may be empty.
    pub id: String,
}

impl Call {
    /// The call as the engine's contract has it.
    pub(crate) fn json(&self) -> String {
        let arguments = match self.arguments.trim() {
            "" => "{}",
            arguments => arguments,
        };
        // A Value would sort the keys of the arguments. The name comes last, so that no argument replaces it.
        let (id, name) = (json!(self.id), json!(self.name));
        format!("{{\"arguments\": {arguments}, \"id\": {id}, \"name\": {name}}}")
    }
}

/// Finds tool calls. Call `reset` between turns.
///
/// If the model's format of tool calls is unknown, `feed` returns an error.
pub struct Decoder(Result<raw::Decoder>);

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Makes a decoder for one turn of this model.
    pub fn new(model: &Model) -> Self {
        Self(fallible::create_tool_decoder(model.inner()))
    }

    /// Decodes a batch of tokens. If the batch completes several calls, this call returns the first one, and each
    /// following `feed`, also with an empty batch, returns the next.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<Event> {
        Ok(match self.0.as_ref().map_err(String::clone)?.feed(tokens)? {
            raw::Event::Start => Event::Start,
            raw::Event::Call((name, args)) => Event::Call(name, args),
        })
    }

    /// Whether a call has begun, or a complete call waits for the next `feed`.
    pub fn is_assembling(&self) -> bool {
        self.0.as_ref().is_ok_and(assembling)
    }

    /// Forgets the turn so far.
    pub fn reset(&mut self) {
        if let Ok(decoder) = &self.0 {
            decoder.reset();
        }
    }
}

/// Returns the tokens that tell the model which tools (JSON schemas) it has.
pub fn equip_prefix(model: &Model, schemas: &(impl Schemas + ?Sized)) -> Result<Vec<u32>> {
    raw::equip(model.inner(), &schemas.texts())
}

/// Returns the tokens that give a tool's result back to the model.
pub fn answer_prefix(model: &Model, name: &str, result_json: &str) -> Vec<u32> {
    raw::answer(model.inner(), name, result_json)
}

/// Returns the call in a finished text, if there is one: (name, arguments as JSON).
pub fn parse_call(model: &Model, text: &str) -> Option<(String, String)> {
    let tokens = model.tokenizer().encode(text);
    match Decoder::new(model).feed(&tokens) {
        Ok(Event::Call(name, args)) => Some((name, args)),
        _ => None,
    }
}

/// Returns a grammar of the model's native call format, or None if the model has none. If a schema is wrong, the grammar
/// keeps the reason, and so does a matcher that is made of it.
pub fn native_grammar(model: &Model, schemas: &(impl Schemas + ?Sized)) -> Option<Grammar> {
    try_native_grammar(model, schemas).unwrap_or_else(|error| Some(Grammar::failed(error)))
}

/// Like [`native_grammar`], but fails if a schema is wrong.
pub fn try_native_grammar(
    model: &Model,
    schemas: &(impl Schemas + ?Sized),
) -> Result<Option<Grammar>> {
    let grammar = fallible::create_tool_grammar(model.inner(), &schemas.texts())?;
    Ok(grammar.map(Grammar::wrap))
}

/// Returns a matcher of the native call format, for `GrammarConstraint::new`, or None if the model has none. If a schema
/// is wrong, the matcher allows no token, and the generation fails with the reason.
pub fn native_matcher(model: &Model, schemas: &(impl Schemas + ?Sized)) -> Option<Matcher> {
    try_native_matcher(model, schemas).unwrap_or_else(|error| Some(Matcher::failed(error)))
}

/// Like [`native_matcher`], but fails if a schema is wrong.
pub fn try_native_matcher(
    model: &Model,
    schemas: &(impl Schemas + ?Sized),
) -> Result<Option<Matcher>> {
    match fallible::create_tool_matcher(model.inner(), &schemas.texts()) {
        Ok(matcher) => Ok(Some(Matcher::wrap(matcher))),
        Err(error) if error.contains(NO_FORM) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A part of the engine's error for a model without a native call format, and for no tools.
const NO_FORM: &str = "has no form of tool calls";

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of tool schemas",
    label = "expected a slice, a `Vec` or an array of `String` or `&str`",
    note = "pass an array of more than 64 schemas as a slice: `&schemas[..]`"
)]
/// A list of tools, each described by the text of a JSON schema: a slice, a `Vec` or an array of texts.
///
/// This is a trait, and not a slice of a generic type, so that the compiler knows the type of `&[]`: the trait is
/// implemented for one type of empty arrays only.
pub trait Schemas {
    /// The texts of the schemas.
    #[doc(hidden)]
    fn texts(&self) -> Vec<String>;
}

impl<S: AsRef<str>> Schemas for [S] {
    fn texts(&self) -> Vec<String> {
        self.iter().map(|schema| schema.as_ref().to_string()).collect()
    }
}

impl<S: AsRef<str>> Schemas for Vec<S> {
    fn texts(&self) -> Vec<String> {
        self[..].texts()
    }
}

impl<L: Schemas + ?Sized> Schemas for &L {
    fn texts(&self) -> Vec<String> {
        (**self).texts()
    }
}

impl<L: Schemas + ?Sized> Schemas for Box<L> {
    fn texts(&self) -> Vec<String> {
        (**self).texts()
    }
}

impl Schemas for [&str; 0] {
    fn texts(&self) -> Vec<String> {
        Vec::new()
    }
}

macro_rules! schemas_of_arrays {
    ($($length:literal)*) => {
        $(impl<S: AsRef<str>> Schemas for [S; $length] {
            fn texts(&self) -> Vec<String> {
                self[..].texts()
            }
        })*
    };
}

schemas_of_arrays!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
schemas_of_arrays!(33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64);

#[cfg(test)]
mod tests {
    use super::*;

    struct Told(&'static str);
    impl Tool for Told {
        fn name(&self) -> &str {
            "told"
        }
        fn description(&self) -> &str {
            "It says \"no\"."
        }
        fn schema(&self) -> String {
            self.0.into()
        }
    }

    #[test]
    fn a_schema_of_arguments_gets_the_name_of_its_tool() {
        let arguments = r#"{"type": "object", "properties": {"name": {}}}"#;
        let whole: Value = serde_json::from_str(&described(&Told(arguments))).unwrap();
        assert_eq!(
            (&whole["name"], &whole["description"]),
            (&json!("told"), &json!("It says \"no\"."))
        );
        assert_eq!(
            whole["parameters"].to_string(),
            serde_json::from_str::<Value>(arguments).unwrap().to_string()
        );
        for told in [r#"{"name": "a"}"#, r#"{"type": "function", "function": {}}"#, "no JSON", "[]"]
        {
            assert_eq!(described(&Told(told)), told);
        }
    }
}
