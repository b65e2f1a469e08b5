//! Tool calls in an answer. The model decides whether it calls a tool. Once it has begun a call, the grammar of its calls
//! holds it, so that the call names a tool of the conversation and its arguments match the tool's schema.

use inferlet::model::Model;
use inferlet::{tools, Constrain, Matcher};
use serde_json::{json, Value};

/// The longest value of an argument in the line that shows a call.
const MAX_SHOWN_CHARS: usize = 60;

pub struct HeldCalls {
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
    mask: Vec<u32>,
    failure: Option<String>,
}

impl HeldCalls {
    /// None if no grammar can be made of the tools. Their calls are then found in the text, as the model writes them.
    pub fn new(model: &Model, schemas: &[String], names: Vec<String>) -> Option<HeldCalls> {
        let mut decoder = tools::Decoder::new(model);
        decoder.feed(&model.tokenizer().encode("{")).ok()?;
        let without_mark = decoder.is_assembling();
        decoder.reset();
        Some(HeldCalls {
            model: model.clone(),
            names,
            without_mark,
            decoder,
            assembling: false,
            matcher: tools::try_native_matcher(model, &usable(model, schemas)).ok()??,
            begun: Vec::new(),
            aligned: false,
            held: false,
            mask: Vec::new(),
            failure: None,
        })
    }

    fn take(&mut self, token: u32) -> inferlet::Result<()> {
        let mut accepted = self.matcher.accept_tokens(&[token]);
        if accepted.is_err() && !self.held {
            self.forget();
            accepted = self.matcher.accept_tokens(&[token]);
        }
        match accepted {
            Ok(_) => self.begun.push(token),
            Err(error) if self.held => return Err(error),
            Err(_) => {}
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

/// The tools, with schemas of which a grammar can be made: a tool whose schema the engine refuses may have any arguments,
/// and the others keep theirs.
fn usable(model: &Model, schemas: &[String]) -> Vec<String> {
    let compiles = |schemas: &[String]| tools::try_native_matcher(model, schemas).is_ok();
    if compiles(schemas) {
        return schemas.to_vec();
    }
    let one = |schema: &String| match compiles(std::slice::from_ref(schema)) {
        true => schema.clone(),
        false => with_any_arguments(schema),
    };
    schemas.iter().map(one).collect()
}

fn with_any_arguments(schema: &str) -> String {
    let mut tool: Value = serde_json::from_str(schema).unwrap_or_default();
    tool["function"]["parameters"] = json!({ "type": "object" });
    tool.to_string()
}

/// Whether the beginning of a call has the whole name of a tool: `"name"`, or `[name(`.
fn names_one(text: &str, names: &[String]) -> bool {
    names
        .iter()
        .any(|name| text.contains(&format!("\"{name}\"")) || text.contains(&format!("[{name}(")))
}

impl Constrain for HeldCalls {
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

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn name(&self) -> String {
        "the grammar of tool calls".into()
    }
}

/// A call as people read it: `price(pie="apple")`.
pub fn readable(name: &str, arguments: &str) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str(arguments) else {
        return format!("{name}({arguments})");
    };
    let one = |(key, value): (&String, &Value)| {
        let mut value = value.to_string();
        if let Some((end, _)) = value.char_indices().nth(MAX_SHOWN_CHARS) {
            value.truncate(end);
            value.push('…');
        }
        format!("{key}={value}")
    };
    let arguments: Vec<String> = arguments.iter().map(one).collect();
    format!("{name}({})", arguments.join(", "))
}

/// The longest text that may begin a call. A longer text that looked like a call is ordinary text.
const MARK_BYTES: usize = 32;

/// The text that can be shown while the model may call a tool: what may become a call is held back.
#[derive(Default)]
pub struct Visible {
    held: String,
    begun: bool,
    inside: bool,
    over: bool,
}

impl Visible {
    /// Takes more text. `assembling` says that a call has begun, and `called` that one is complete. Returns what can be
    /// shown. Nothing after a call is shown.
    pub fn push(&mut self, text: &str, assembling: bool, called: bool) -> String {
        if self.over {
            return String::new();
        }
        self.held.push_str(text);
        if called || assembling {
            self.over = called;
            return self.before_mark();
        }
        self.inside = false;
        if !self.begun && self.may_be_bare_call() {
            return String::new();
        }
        let mark = self.held.rfind(['<', '[']).unwrap_or(self.held.len());
        let may_be_mark = self.held.len() - mark <= MARK_BYTES;
        self.show(if may_be_mark { mark } else { self.held.len() })
    }

    /// Returns the text that was held back. Called at the end of the text.
    pub fn rest(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        if self.over {
            return String::new();
        }
        held
    }

    /// Whether the answer may be a call without a mark, as some models write it. Such a call is the whole answer.
    fn may_be_bare_call(&self) -> bool {
        let text = self.held.trim_start();
        text.is_empty() || text.starts_with(['{', '['])
    }

    /// Returns the text before the call that has just begun.
    fn before_mark(&mut self) -> String {
        if self.inside || (!self.begun && self.may_be_bare_call()) {
            return String::new();
        }
        self.inside = true;
        let mark = self.held.rfind(['<', '[']).unwrap_or(self.held.len());
        self.show(mark)
    }

    fn show(&mut self, until: usize) -> String {
        let rest = self.held.split_off(until);
        let shown = std::mem::replace(&mut self.held, rest);
        self.begun |= !shown.is_empty();
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_short_line() {
        assert_eq!(
            readable("price", r#"{"pie": "apple"}"#),
            "price(pie=\"apple\")"
        );
        assert_eq!(readable("stop", "{}"), "stop()");
        let long = readable("note", &format!("{{\"text\": \"{}\"}}", "ü".repeat(200)));
        assert!(long.ends_with("ü…)") && long.chars().count() < 80, "{long}");
        assert_eq!(readable("odd", "[1"), "odd([1)");
    }

    #[test]
    fn a_call_is_not_shown() {
        let mut visible = Visible::default();
        assert_eq!(
            visible.push("Let me see. <tool", false, false),
            "Let me see. "
        );
        assert_eq!(visible.push("_call>{", true, false), "");
        assert_eq!(visible.push("</tool_call>", false, true), "");
        assert_eq!(visible.push("more", false, false), "");
        assert_eq!(visible.rest(), "");
        let mut visible = Visible::default();
        assert_eq!(visible.push("{\"name\":", true, false), "");
        assert_eq!(visible.push(" 5", false, false), "");
        assert_eq!(visible.rest(), "{\"name\": 5"); // a call that breaks off is text
    }
}
