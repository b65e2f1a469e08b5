//! Generators that run to their end.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::schemars::JsonSchema;
use crate::{chat, Grammar, Result};

use super::chained::Chained;
use super::schema::schema_value;
use super::thoughts::Thoughts;
use super::Generator;

/// A generation that runs to its end, in batches of accepted tokens.
enum Run<'ctx> {
    /// The engine runs the loop, and a batch holds the tokens that it has chosen since the last one.
    Chained(Chained<'ctx>),
    /// The program decides something between two passes, so a batch is one step.
    Stepped(Generator<'ctx>),
}

impl Run<'_> {
    /// Returns the tokens accepted since the last call, or None at the end.
    async fn next(&mut self) -> Result<Option<Vec<u32>>> {
        match self {
            Run::Chained(chained) => chained.next().await,
            Run::Stepped(generator) => match generator.next()? {
                Some(step) => Ok(Some(step.execute().await?.tokens)),
                None => Ok(None),
            },
        }
    }
}

impl<'ctx> Generator<'ctx> {
    /// Starts the loop. A chained one also ends at the tokens `ends`, which it accepts.
    fn run(self, ends: &[u32]) -> Result<Run<'ctx>> {
        Ok(match Chained::start(&self.state, ends)? {
            Some(chained) => Run::Chained(chained),
            None => Run::Stepped(self),
        })
    }

    /// Runs to the end and returns all accepted tokens.
    pub async fn collect_tokens(self) -> Result<Vec<u32>> {
        let mut run = self.run(&[])?;
        let mut tokens = Vec::new();
        while let Some(mut more) = run.next().await? {
            tokens.append(&mut more);
        }
        Ok(tokens)
    }

    /// Runs to the end and returns the text that a reader of the chat would see. The end of the model's turn also
    /// ends the text.
    pub async fn collect_text(self) -> Result<String> {
        let model = self.state.borrow().ctx.model().clone();
        let mut decoder = chat::Decoder::new(&model);
        let mut run = self.run(&chat::stop_tokens(&model))?;
        let mut text = String::new();
        while let Some(tokens) = run.next().await? {
            let mut event = decoder.feed(&tokens)?;
            if let chat::Event::Interrupt(_) = event {
                event = decoder.feed(&[])?; // the text around the control token
            }
            match event {
                chat::Event::Delta(delta) => text.push_str(&delta),
                chat::Event::Done(whole) => return Ok(whole),
                chat::Event::Idle | chat::Event::Interrupt(_) => {}
            }
        }
        Ok(text)
    }

    /// Runs under the JSON Schema of `T` until the document is complete, and parses it as a `T`. A model that reasons may
    /// think before it: see [`think_first`](Generator::think_first).
    pub async fn collect_json<T: JsonSchema + DeserializeOwned>(self) -> Result<T> {
        self.collect_json_with(&schema_value::<T>().to_string()).await
    }

    /// Runs under a JSON Schema of your own until the document is complete, and parses it as a `T`, which may be
    /// `serde_json::Value`.
    pub async fn collect_json_with<T: DeserializeOwned>(self, schema: &str) -> Result<T> {
        let model = self.state.borrow().ctx.model().clone();
        let thinks_first = self.state.borrow().options.thinks_first;
        let thoughts = Thoughts::of(&model).filter(|thoughts| thoughts.begun() || thinks_first);
        let constrained = match &thoughts {
            None => self.constrain_with(crate::JsonSchema(schema))?,
            Some(thoughts) => {
                Grammar::from_json_schema(schema)?; // says what is wrong with it
                self.constrain_with(crate::Ebnf(&thoughts.grammar(schema)))?
            }
        };
        let state = constrained.state.clone();
        let tokens = constrained.collect_tokens().await?;
        let text = match &thoughts {
            None => model.tokenizer().decode_with(&tokens, true)?,
            Some(thoughts) => thoughts.document(&model, &tokens)?,
        };
        let mut value: Value = serde_json::from_str(&text)
            .map_err(|error| unread(&error, state.borrow().generated, &text))?;
        make_zero_whole(&mut value);
        serde_json::from_value(value)
            .map_err(|error| format!("the JSON document does not fit the type: {error} in {text}"))
    }
}

/// Why a document was not read: it is cut off, or it has a number or a depth that serde_json does not take.
fn unread(error: &serde_json::Error, count: usize, text: &str) -> String {
    match error.is_eof() {
        true => {
            format!("the JSON document is not complete after {count} tokens: {error} in {text}")
        }
        false => format!("the JSON document cannot be read: {error} in {text}"),
    }
}

/// serde_json reads `-0`, which is an integer by its schema, as a float.
fn make_zero_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_f64() == Some(0.0) => *value = 0.into(),
        Value::Array(items) => items.iter_mut().for_each(make_zero_whole),
        Value::Object(entries) => entries.values_mut().for_each(make_zero_whole),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_that_are_cut_off_are_not_complete() {
        let reason =
            |text: &str| unread(&serde_json::from_str::<Value>(text).unwrap_err(), 7, text);
        for text in ["", "[1, 2", "{\"a\": \"b", "tr"] {
            assert!(reason(text).contains("not complete after 7 tokens"), "{text}");
        }
        assert!(reason("[1e999]").contains("cannot be read: number out of range"));
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        assert!(reason(&deep).contains("cannot be read: recursion limit exceeded"));
    }

    #[test]
    fn minus_zero_is_an_integer() {
        let mut value: Value = serde_json::from_str(r#"{"a": [-0, 1.5, "-0"]}"#).unwrap();
        make_zero_whole(&mut value);
        assert_eq!(value, serde_json::json!({"a": [0, 1.5, "-0"]}));
    }
}
