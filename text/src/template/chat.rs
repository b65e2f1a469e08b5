//! A model's chat template, loaded: what the engine asks of it.
use super::call_grammar;
use super::calls::{calls, Calls};
use super::conversation::Conversation;
use super::extend::{extend, usual_context};
use super::marks::{Disguise, GUARD};
use super::options::{self, Options};
use super::probe::{cue, find_style, seal, stops};
use super::reasoning::{reasoning, Reasoning};
use super::renderer::Renderer;
use super::specials::{Encoder, Specials};
use super::turns::{Turn, TurnKind};
use super::Moment;
use crate::grammar::{Error, Grammar};
use crate::own_stack;
use crate::tokenizer::Tokenizer;
use serde_json::{json, Map, Value as Json};
use std::borrow::Cow;
use std::sync::Arc;

/// Rendering and probing recurse; a guest's stack is small. So they run on a stack of their own.
const STACK_BYTES: usize = 16 << 20;
/// Turns of one call.
const TURNS: usize = 4_096;

/// For a model without a template whose vocabulary has ChatML's tokens.
const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n\
                      {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// For any other: roles by name.
const PLAIN: &str = "{{ bos_token }}{% for message in messages %}{{ message['role'] | capitalize }}: \
                     {{ message['content'] | trim }}\n\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

pub struct Setup {
    /// The Jinja source, if the model has one.
    pub source: Option<String>,
    /// The variables of the template besides the conversation: `bos_token`, `eos_token`, ….
    pub variables: Map<String, Json>,
    /// Tokens that end a turn, whatever the template says.
    pub stops: Vec<u32>,
    pub now: Moment,
    pub tokenizer: Arc<Tokenizer>,
}

/// Immutable, shared by threads.
pub struct ChatTemplate {
    renderer: Renderer,
    tokenizer: Arc<Tokenizer>,
    seal: Vec<u32>,
    stops: Vec<u32>,
    reasoning: Option<Reasoning>,
    calls: Option<Calls>,
}

impl ChatTemplate {
    /// Fails on templates that are broken or that cannot write a user's turn.
    pub fn new(setup: Setup) -> Result<Self, String> {
        on_own_stack(move || Self::probe(setup))
    }

    fn probe(setup: Setup) -> Result<Self, String> {
        let tokenizer = setup.tokenizer;
        let specials = Specials::new(tokenizer.specials());
        let has = |name| specials.id(name).is_some();
        let source = match setup.source {
            Some(source) => source,
            None if has("<|im_start|>") && has("<|im_end|>") => CHATML.into(),
            None => PLAIN.into(),
        };
        let mut renderer = Renderer::new(&source, specials, setup.variables, setup.now)?;
        find_style(&mut renderer)?;
        let encoder = Encoder {
            tokenizer: &tokenizer,
            disguise: &Disguise::default(),
        };
        let seal = renderer.encode(&seal(&renderer)?, &encoder)?;
        let mut ends = stops(&renderer);
        for stop in setup.stops {
            if !ends.contains(&stop) {
                ends.push(stop);
            }
        }
        let (reasoning, calls) = (reasoning(&renderer, &source), calls(&renderer));
        Ok(ChatTemplate {
            renderer,
            tokenizer,
            seal,
            stops: ends,
            reasoning,
            calls,
        })
    }

    /// `options` with an option set to a value, which is JSON, or removed. Fails if the template refuses the value.
    pub fn set_option(
        &self,
        options: &Options,
        name: &str,
        value: Option<&str>,
    ) -> Result<Options, String> {
        let mut options = options.clone();
        options::set(&mut options, &self.renderer.variables, name, value)?;
        on_own_stack(|| cue(&self.renderer.with(&options)))
            .map_err(|error| format!("the template refuses the option '{name}': {error}"))?;
        Ok(options)
    }

    /// Whether the model's turn begins inside of its thoughts.
    pub fn begins_inside(&self, options: &Options) -> Result<bool, String> {
        let Some(reasoning) = &self.reasoning else {
            return Ok(false);
        };
        let cue = on_own_stack(|| cue(&self.renderer.with(options)))?;
        Ok(reasoning.is_begun(&cue))
    }

    /// The tokens that `turns` add after turns of the kinds `before`.
    pub fn extend(
        &self,
        before: &[TurnKind],
        turns: &[Turn],
        options: &Options,
    ) -> Result<Vec<u32>, String> {
        if turns.len() > TURNS {
            return Err(format!(
                "there are {} turns; at most {TURNS} are allowed",
                turns.len()
            ));
        }
        self.write(before, turns, options, false)
    }

    /// One turn, complete, where turns of its kind usually stand: system and tools at the beginning, others in the middle.
    pub fn alone(&self, turn: Turn, options: &Options) -> Result<Vec<u32>, String> {
        let before: &[TurnKind] = match turn.kind() {
            TurnKind::System => &[],
            kind => usual_context(kind, TurnKind::User),
        };
        self.write(before, &[turn], options, true)
    }

    fn write(
        &self,
        before: &[TurnKind],
        turns: &[Turn],
        options: &Options,
        closed: bool,
    ) -> Result<Vec<u32>, String> {
        on_own_stack(|| {
            let renderer = match options.is_empty() {
                true => Cow::Borrowed(&self.renderer),
                false => Cow::Owned(self.renderer.with(options)),
            };
            extend(&renderer, &self.tokenizer, before, turns, closed)
        })
    }

    /// The tokens that close an assistant's turn.
    pub fn seal(&self) -> &[u32] {
        &self.seal
    }

    pub fn stops(&self) -> &[u32] {
        &self.stops
    }

    /// A whole rendering of messages as they are: `{"messages": […], "tools": […], "cue": bool, "options": {…}}`. Nothing
    /// in it is guarded.
    pub fn render(&self, conversation: &str) -> Result<String, String> {
        let json: Json = serde_json::from_str(conversation)
            .map_err(|e| format!("the conversation is not JSON: {e}"))?;
        let list = |key: &str| json[key].as_array().cloned();
        let conversation = Conversation {
            messages: list("messages").ok_or("the conversation has no list of messages")?,
            tools: list("tools"),
            cue: json["cue"].as_bool().unwrap_or(false),
        };
        let bytes = json.to_string().len();
        let options = json["options"].as_object().cloned().unwrap_or_default();
        on_own_stack(|| {
            let rendered = self
                .renderer
                .with(&options)
                .render_messages(&conversation, bytes)?;
            Ok(rendered.replace(GUARD, ""))
        })
    }

    /// The grammar of calls of these tools, which begins with the mark of a call. None if the form of calls is unknown, or
    /// if there are no tools.
    pub fn call_grammar(&self, tools: &[Json]) -> Result<Option<Grammar>, Error> {
        match &self.calls {
            Some(calls) => call_grammar::grammar(calls, &self.renderer.specials, tools),
            None => Ok(None),
        }
    }

    /// The formats of reasoning and of tool calls: a JSON object.
    pub fn formats(&self) -> String {
        let reasoning = self.reasoning.as_ref();
        let reasoning = reasoning.map(|found| found.to_json(&self.renderer.specials));
        json!({"reasoning": reasoning, "calls": self.calls.as_ref().map(Calls::to_json)})
            .to_string()
    }
}

/// The variables of a [`Setup`], from JSON.
pub fn variables(json: &str) -> Result<Map<String, Json>, String> {
    serde_json::from_str(json)
        .map_err(|e| format!("the template's variables are not a JSON object: {e}"))
}

fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    own_stack::run("pie-template", STACK_BYTES, work)
        .unwrap_or_else(|| Err("the chat template made the Jinja engine fail".into()))
}
