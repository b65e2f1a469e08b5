//! Generators that run to their end.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::{chat, Result};

use super::chained::Chained;
use super::Generator;

impl Generator<'_> {
    /// All accepted tokens.
    pub async fn collect_tokens(mut self) -> Result<Vec<u32>> {
        let mut tokens = Vec::new();
        if let Some(mut chained) = Chained::start(&self.state, &[])? {
            while let Some(mut more) = chained.next().await? {
                tokens.append(&mut more);
            }
            return Ok(tokens);
        }
        while let Some(step) = self.next()? {
            tokens.append(&mut step.execute().await?.tokens);
        }
        Ok(tokens)
    }

    /// The text that a reader of the chat would see. Ends where the model's turn ends.
    pub async fn collect_text(mut self) -> Result<String> {
        let mut decoder = chat::Decoder::new(self.state.borrow().ctx.model());
        let mut text = String::new();
        let turn_ends = chat::stop_tokens(self.state.borrow().ctx.model());
        if let Some(mut chained) = Chained::start(&self.state, &turn_ends)? {
            while let Some(more) = chained.next().await? {
                let mut event = decoder.feed(&more)?;
                if let chat::Event::Interrupt(_) = event {
                    event = decoder.feed(&[])?; // what was said beside the control token
                }
                match event {
                    chat::Event::Delta(delta) => text.push_str(&delta),
                    chat::Event::Done(whole) => return Ok(whole),
                    chat::Event::Idle | chat::Event::Interrupt(_) => {}
                }
            }
            return Ok(text);
        }
        while let Some(step) = self.next()? {
            let out = step.execute().await?;
            match decoder.feed(&out.tokens)? {
                chat::Event::Delta(delta) => text.push_str(&delta),
                chat::Event::Done(whole) => return Ok(whole),
                chat::Event::Idle | chat::Event::Interrupt(_) => {}
            }
        }
        Ok(text)
    }

    /// A value of type `T`: its JSON Schema restricts the text, which is then parsed.
    pub async fn collect_json<T: JsonSchema + DeserializeOwned>(self) -> Result<T> {
        let schema = serde_json::to_string(&schemars::schema_for!(T))
            .map_err(|error| format!("the type has no JSON Schema: {error}"))?;
        let model = self.state.borrow().ctx.model().clone();
        let constrained = self.constrain_with(crate::JsonSchema(&schema))?.stop(&[]);
        let text = model.tokenizer().decode(&constrained.collect_tokens().await?)?;
        serde_json::from_str(&text)
            .map_err(|error| format!("the model's JSON is not usable: {error} in {text}"))
    }
}
