//! Conversations → text, with people's words told apart from the template's.
use super::conversation::{Conversation, Style};
use super::engine::{Engine, Moment};
use super::marks::GUARD;
use super::options::Options;
use super::specials::{Encoder, Specials};
use super::turns::Turn;
use minijinja::value::Value;
use serde_json::{Map, Value as Json};
use std::sync::Arc;

#[derive(Clone)]
pub struct Renderer {
    engine: Arc<Engine>,
    pub specials: Arc<Specials>,
    /// `bos_token` and the like.
    pub variables: Map<String, Json>,
    options: Options,
    pub style: Style,
}

impl Renderer {
    pub fn new(
        template: &str,
        specials: Specials,
        variables: Map<String, Json>,
        now: Moment,
    ) -> Result<Self, String> {
        Ok(Renderer {
            engine: Arc::new(Engine::new(template, now)?),
            specials: Arc::new(specials),
            variables,
            options: Options::new(),
            style: Style::plain(),
        })
    }

    /// The same renderer with these options. Their texts are people's words.
    pub fn with(&self, options: &Options) -> Renderer {
        let guarded = |value: &Json| match value {
            Json::String(text) => self.specials.guard(text, GUARD).into(),
            other => other.clone(),
        };
        let options = options
            .iter()
            .map(|(name, value)| (name.clone(), guarded(value)));
        Renderer {
            options: options.collect(),
            ..self.clone()
        }
    }

    /// The whole text. Special tokens' names in it are the template's own; others hold a GUARD.
    pub fn render(&self, turns: &[Turn]) -> Result<String, String> {
        let conversation = Conversation::new(&self.guarded(turns), &self.style);
        self.render_messages(&conversation, turns.iter().map(Turn::bytes).sum())
    }

    pub fn render_messages(
        &self,
        conversation: &Conversation,
        bytes: usize,
    ) -> Result<String, String> {
        let mut variables = self.variables.clone();
        variables.extend(self.options.clone());
        variables.insert(
            "messages".into(),
            Json::Array(conversation.messages.clone()),
        );
        variables.insert(
            "tools".into(),
            conversation.tools.clone().map_or(Json::Null, Json::Array),
        );
        variables.insert("documents".into(), Json::Null);
        variables.insert("add_generation_prompt".into(), Json::Bool(conversation.cue));
        self.engine.render(
            Value::from_serialize(&variables),
            conversation.messages.len(),
            bytes,
        )
    }

    /// The token that begins a text.
    pub fn begin_token(&self) -> Option<u32> {
        self.specials.id(self.variables.get("bos_token")?.as_str()?)
    }

    pub fn encode(&self, text: &str, encoder: &Encoder) -> Result<Vec<u32>, String> {
        self.specials.encode(text, GUARD, encoder)
    }

    /// Guarding twice does no more.
    pub fn guarded(&self, turns: &[Turn]) -> Vec<Turn> {
        let guard = |text: &str| self.specials.guard(text, GUARD);
        turns.iter().map(|turn| turn.map_texts(&guard)).collect()
    }
}
