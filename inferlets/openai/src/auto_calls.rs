//! With `tool_choice: auto` the model itself decides whether it calls a tool. Once it has begun a call, the grammar of its
//! calls holds it, so that the call names a tool of the request and its arguments match the tool's schema.

use crate::tools::Tools;
use inferlet::model::Model;
use inferlet::{tools, Constrain, Matcher};

pub struct AutoCalls {
    model: Model,
    names: Vec<String>,
    /// Some models write a call as JSON without a mark. An answer may be JSON too, until it names a tool.
    without_mark: bool,
    /// Finds the beginnings of calls.
    decoder: tools::Decoder,
    assembling: bool,
    matcher: Matcher,
    /// The tokens at the end of the text that the matcher has accepted.
    begun: Vec<u32>,
    /// Whether these tokens and the decoder's call begin at the same place.
    aligned: bool,
    /// Whether the grammar holds the call, until its end.
    held: bool,
    one_call: bool,
    over: bool,
    mask: Vec<u32>,
    failure: Option<String>,
}

impl AutoCalls {
    /// None if no grammar can be made of the tools. Their calls are then found in the text, as the model writes them.
    pub fn new(model: &Model, tools: &Tools) -> Option<AutoCalls> {
        let mut decoder = tools::Decoder::new(model);
        decoder.feed(&model.tokenizer().encode("{")).ok()?;
        let without_mark = decoder.is_assembling();
        decoder.reset();
        let matcher = tools::native_matcher(model, &tools.callable)?;
        matcher.fork().ok()?; // fails if the schemas cannot be enforced
        Some(AutoCalls {
            model: model.clone(),
            names: tools.names.clone(),
            without_mark,
            decoder,
            assembling: false,
            matcher,
            begun: Vec::new(),
            aligned: false,
            held: false,
            one_call: tools.one_call,
            over: false,
            mask: Vec::new(),
            failure: None,
        })
    }

    fn take(&mut self, token: u32) -> inferlet::Result<()> {
        if let Err(error) = self.matcher.accept_tokens(&[token]) {
            if self.held {
                return Err(error);
            }
            self.forget();
            if self.matcher.accept_tokens(&[token]).is_ok() {
                self.begun.push(token);
            }
        } else {
            self.begun.push(token);
        }
        let mut event = self.decoder.feed(&[token])?;
        while let tools::Event::Call(..) = event {
            event = self.decoder.feed(&[])?;
        }
        let was_assembling = std::mem::replace(&mut self.assembling, self.decoder.is_assembling());
        if self.assembling && !was_assembling {
            self.aligned = !self.begun.is_empty();
        }
        if self.matcher.is_terminated() {
            self.over |= self.one_call && self.held;
            self.held = false;
            self.forget();
        } else if self.aligned && !self.held {
            let text = self.model.tokenizer().decode(&self.begun)?;
            self.held = !self.without_mark || names_one(&text, &self.names);
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.matcher.reset();
        self.begun.clear();
        self.aligned = false;
    }
}

/// Whether the beginning of a call has the whole name of a tool: `"name"`, or `[name(`.
fn names_one(text: &str, names: &[String]) -> bool {
    names
        .iter()
        .any(|name| text.contains(&format!("\"{name}\"")) || text.contains(&format!("[{name}(")))
}

impl Constrain for AutoCalls {
    fn step(&mut self, accepted: &[u32]) -> &[u32] {
        for token in accepted {
            if self.failure.is_none() {
                self.failure = self.take(*token).err();
            }
        }
        self.mask = match self.held {
            true => self.matcher.next_token_logit_mask(),
            false => Vec::new(),
        };
        &self.mask
    }

    fn is_finished(&self) -> bool {
        self.over
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn name(&self) -> String {
        "the grammar of tool calls".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_names_a_tool_is_a_call() {
        let names = ["weather".to_string()];
        assert!(!names_one("{\"name\": \"we", &names));
        assert!(names_one("{\"name\": \"weather\"", &names));
        assert!(names_one("[weather(", &names));
        assert!(!names_one("[\"a list\"", &names));
    }
}
