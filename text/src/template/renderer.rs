//! Conversations → text, with people's words told apart from the template's.
use super::engine::{Engine, Moment};
use super::specials::{Encoder, Specials};
use super::turns::{Conversation, Style, Turn};
use minijinja::value::Value;
use serde_json::{Map, Value as Json};

/// Breaks special tokens' names in content; see `specials.rs`.
pub const GUARD: char = '\u{FDD0}';
/// Stands behind the content of the last turn.
pub const END: char = '\u{FDD1}';
/// Begins and ends what stands in for content that is not known.
pub const STAND_IN: char = '\u{FDD2}';

pub struct Renderer {
    engine: Engine,
    pub specials: Specials,
    /// `bos_token` and the like, and what else the template is given.
    variables: Map<String, Json>,
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
            engine: Engine::new(template, now)?,
            specials,
            variables,
            style: Style::plain(),
        })
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

    pub fn encode(&self, text: &str, encoder: &dyn Encoder) -> Result<Vec<u32>, String> {
        self.specials.encode(text, GUARD, encoder)
    }

    /// Guarding twice does no more.
    pub fn guarded(&self, turns: &[Turn]) -> Vec<Turn> {
        let guard = |text: &str| self.specials.guard(text, GUARD);
        turns
            .iter()
            .map(|turn| match turn {
                Turn::System(text) => Turn::System(guard(text)),
                Turn::User(text) => Turn::User(guard(text)),
                Turn::Assistant(text) => Turn::Assistant(guard(text)),
                Turn::Tools(tools) => {
                    Turn::Tools(tools.iter().map(|tool| map_texts(tool, &guard)).collect())
                }
                Turn::Answer { name, value } => Turn::Answer {
                    name: guard(name),
                    value: guard(value),
                },
                Turn::Calls { names, sample } => Turn::Calls {
                    names: names.iter().map(|name| guard(name)).collect(),
                    sample: sample.clone(),
                },
                Turn::Cue => Turn::Cue,
            })
            .collect()
    }
}

/// `json` with every text in it, keys too, replaced. Its depth was limited when it was parsed.
fn map_texts(json: &Json, with: &dyn Fn(&str) -> String) -> Json {
    match json {
        Json::String(text) => Json::String(with(text)),
        Json::Array(items) => items.iter().map(|item| map_texts(item, with)).collect(),
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| (with(key), map_texts(value, with)))
            .collect(),
        other => other.clone(),
    }
}

/// Refuses content that holds the characters which are used as marks here. They are noncharacters: no text has them.
pub fn check_content(turns: &[Turn]) -> Result<(), String> {
    let is_mark = |c: char| matches!(c, GUARD | END | STAND_IN);
    let clean = |text: &str| !text.contains(is_mark);
    let all_clean = turns.iter().all(|turn| match turn {
        Turn::System(text) | Turn::User(text) | Turn::Assistant(text) => clean(text),
        Turn::Tools(tools) => tools.iter().all(|tool| clean(&tool.to_string())),
        Turn::Answer { name, value } => clean(name) && clean(value),
        Turn::Calls { .. } | Turn::Cue => true,
    });
    if all_clean {
        return Ok(());
    }
    Err("a turn holds one of the noncharacters U+FDD0 to U+FDD2; leave them out".into())
}
