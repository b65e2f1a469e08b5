//! Tools in the model's native format.

use crate::inference::{Grammar, Matcher};
use crate::model::Model;
use crate::pie::instruct::tool_use as raw;
use crate::pie::plus::calls::assembling;
use crate::pie::plus::fallible;
use crate::Result;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::any::Any;

/// Something that a model may call. `#[inferlet::tool]` implements it for a function.
pub trait Tool {
    /// The name that the model calls.
    fn name(&self) -> &str;
    /// What the tool does, for the model.
    fn description(&self) -> &str;
    /// The JSON text that describes the tool to the model: its name, its description, and the schema of its arguments.
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

/// Describes a tool as JSON. `#[inferlet::tool]` uses it.
#[doc(hidden)]
pub fn schema<T: JsonSchema>(name: &str, description: &str) -> String {
    let mut parameters = crate::generator::schema_value::<T>();
    if let Some(entries) = parameters.as_object_mut() {
        entries.remove("$schema");
        entries.remove("title");
        entries.entry("properties").or_insert_with(|| serde_json::json!({}));
    }
    serde_json::json!({ "name": name, "description": description, "parameters": parameters })
        .to_string()
}

/// What a batch of tokens contained.
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
        let (id, name) = (serde_json::json!(self.id), serde_json::json!(self.name));
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
pub fn equip_prefix<S: AsRef<str>>(model: &Model, schemas: &[S]) -> Result<Vec<u32>> {
    raw::equip(model.inner(), &owned(schemas))
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

/// Returns a grammar of the model's native call format, or None if the model has none.
pub fn native_grammar<S: AsRef<str>>(model: &Model, schemas: &[S]) -> Option<Grammar> {
    raw::format(model.inner(), &owned(schemas)).map(Grammar::wrap)
}

/// Returns a matcher of the native call format, for `GrammarConstraint::new`, or None if the model has none.
pub fn native_matcher<S: AsRef<str>>(model: &Model, schemas: &[S]) -> Option<Matcher> {
    fallible::create_tool_matcher(model.inner(), &owned(schemas)).ok().map(Matcher::wrap)
}

fn owned<S: AsRef<str>>(schemas: &[S]) -> Vec<String> {
    schemas.iter().map(|schema| schema.as_ref().to_string()).collect()
}
