//! Turns, and the messages and tools that a template is given for them.
use serde_json::{json, Map, Value as Json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TurnKind {
    System,
    User,
    Assistant,
    /// The tools that the model may call.
    Tools,
    /// A tool's answer.
    Answer,
    /// Where the model's own turn begins.
    Cue,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    System(String),
    User(String),
    Assistant(String),
    /// Schemas, as `{"type": "function", "function": {…}}`.
    Tools(Vec<Json>),
    Answer {
        name: String,
        value: String,
    },
    /// Where the model's own turn begins.
    Cue,
    /// An assistant's turn that called tools; what stands for a turn that the engine has not seen.
    Calls {
        names: Vec<String>,
        sample: String,
    },
}

impl Turn {
    pub fn kind(&self) -> TurnKind {
        match self {
            Turn::System(_) => TurnKind::System,
            Turn::User(_) => TurnKind::User,
            Turn::Assistant(_) | Turn::Calls { .. } => TurnKind::Assistant,
            Turn::Tools(_) => TurnKind::Tools,
            Turn::Answer { .. } => TurnKind::Answer,
            Turn::Cue => TurnKind::Cue,
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            Turn::System(text) | Turn::User(text) | Turn::Assistant(text) => text.len(),
            Turn::Tools(tools) => tools.iter().map(|tool| tool.to_string().len()).sum(),
            Turn::Answer { name, value } => name.len() + value.len(),
            Turn::Calls { .. } | Turn::Cue => 0,
        }
    }

    /// Shows `look` the content. Tools are shown as JSON.
    pub fn for_each_text(&self, look: &mut dyn FnMut(&str)) {
        match self {
            Turn::System(text) | Turn::User(text) | Turn::Assistant(text) => look(text),
            Turn::Tools(tools) => tools.iter().for_each(|tool| look(&tool.to_string())),
            Turn::Answer { name, value } => {
                look(name);
                look(value);
            }
            Turn::Calls { .. } | Turn::Cue => {}
        }
    }

    /// The same turn with every text of its content replaced. The sample of a call is ours, not content.
    pub fn map_texts(&self, with: &dyn Fn(&str) -> String) -> Turn {
        match self {
            Turn::System(text) => Turn::System(with(text)),
            Turn::User(text) => Turn::User(with(text)),
            Turn::Assistant(text) => Turn::Assistant(with(text)),
            Turn::Tools(tools) => {
                Turn::Tools(tools.iter().map(|tool| map_json(tool, with)).collect())
            }
            Turn::Answer { name, value } => Turn::Answer {
                name: with(name),
                value: with(value),
            },
            Turn::Calls { names, sample } => Turn::Calls {
                names: names.iter().map(|name| with(name)).collect(),
                sample: sample.clone(),
            },
            Turn::Cue => Turn::Cue,
        }
    }
}

/// `json` with every text in it, keys too, replaced. Its depth was limited when it was parsed.
fn map_json(json: &Json, with: &dyn Fn(&str) -> String) -> Json {
    match json {
        Json::String(text) => Json::String(with(text)),
        Json::Array(items) => items.iter().map(|item| map_json(item, with)).collect(),
        Json::Object(entries) => entries
            .iter()
            .map(|(key, value)| (with(key), map_json(value, with)))
            .collect(),
        other => other.clone(),
    }
}

/// The properties of a template, found by probing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    /// It refuses or forgets system turns: their text goes before the next user's.
    pub folds_system: bool,
    /// It knows nothing of tools: they are described in a system turn.
    pub describes_tools: bool,
    /// It does not know a tool's answers: they come as a user's turn.
    pub answers_as_user: bool,
    /// It writes tool calls.
    pub writes_calls: bool,
    /// It wants an answer to follow a call, not plain text.
    pub wants_calls: bool,
    /// A call's content: null or an empty text; its arguments: an object or JSON text.
    pub null_content: bool,
    pub text_arguments: bool,
    /// It knows a call by its id only: `functions.name:0`.
    pub named_ids: bool,
    /// It wants every tool to have a description and parameters.
    pub full_schemas: bool,
}

impl Style {
    pub fn plain() -> Self {
        Style {
            folds_system: false,
            describes_tools: false,
            answers_as_user: false,
            writes_calls: true,
            wants_calls: false,
            null_content: true,
            text_arguments: false,
            named_ids: false,
            full_schemas: false,
        }
    }
}

#[derive(Debug, Default)]
pub struct Conversation {
    pub messages: Vec<Json>,
    pub tools: Option<Vec<Json>>,
    pub cue: bool,
}

/// Tool call ids that every family takes: nine letters or digits.
fn call_id(name: &str, n: usize, style: &Style) -> String {
    match style.named_ids {
        true => format!("functions.{name}:{n}"),
        false => format!("{n:09}"),
    }
}

/// An assistant's turn that calls these tools.
pub fn call_message(names: &[String], arguments: &Json, style: &Style) -> Json {
    let content = if style.null_content {
        Json::Null
    } else {
        json!("")
    };
    json!({"role": "assistant", "content": content, "tool_calls": call_list(names, arguments, style)})
}

fn call_list(names: &[String], arguments: &Json, style: &Style) -> Json {
    let arguments = match style.text_arguments {
        true => json!(super::python::plain_json(arguments)),
        false => arguments.clone(),
    };
    let call = |(i, name): (usize, &String)| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"id": call_id(name, i, style), "type": "function", "function": function})
    };
    names.iter().enumerate().map(call).collect()
}

impl Conversation {
    pub fn new(turns: &[Turn], style: &Style) -> Self {
        let mut to = Builder {
            style,
            out: Conversation::default(),
            folded: None,
            answers: 0,
        };
        for (i, turn) in turns.iter().enumerate() {
            to.add(turn, &turns[i + 1..]);
        }
        to.out
    }
}

struct Builder<'a> {
    style: &'a Style,
    out: Conversation,
    /// System text that waits for a user's turn.
    folded: Option<String>,
    /// Answers since the last call.
    answers: usize,
}

impl Builder<'_> {
    fn add(&mut self, turn: &Turn, rest: &[Turn]) {
        match turn {
            Turn::System(text) => self.system(text),
            Turn::Tools(tools) if self.style.describes_tools => self.system(&described(tools)),
            Turn::Tools(tools) => {
                let full = self.style.full_schemas;
                let tools = tools
                    .iter()
                    .map(|tool| if full { completed(tool) } else { tool.clone() });
                self.out.tools.get_or_insert_default().extend(tools);
            }
            Turn::User(text) => {
                let text = match self.folded.take() {
                    Some(system) => format!("{system}\n\n{text}"),
                    None => text.clone(),
                };
                self.say("user", text);
            }
            Turn::Assistant(text) => {
                let mut message = json!({"role": "assistant", "content": text});
                let names: Vec<String> = rest
                    .iter()
                    .map_while(|turn| match turn {
                        Turn::Answer { name, .. } => Some(name.clone()),
                        _ => None,
                    })
                    .collect();
                if self.style.wants_calls && !names.is_empty() {
                    message["tool_calls"] = call_list(&names, &json!({}), self.style);
                }
                self.answers = 0;
                self.out.messages.push(message);
            }
            Turn::Calls { names, sample } => {
                self.answers = 0;
                self.out
                    .messages
                    .push(call_message(names, &json!({"value": sample}), self.style));
            }
            Turn::Answer { name, value } => self.answer(name, value),
            Turn::Cue => self.out.cue = true,
        }
    }

    fn say(&mut self, role: &str, text: String) {
        self.out
            .messages
            .push(json!({"role": role, "content": text}));
    }

    fn system(&mut self, text: &str) {
        if self.style.folds_system {
            match &mut self.folded {
                Some(before) => *before = format!("{before}\n\n{text}"),
                None => self.folded = Some(text.to_string()),
            }
            return;
        }
        // Tools that we describe join the system turn before them, as templates that know tools do it.
        if self.style.describes_tools
            && self.out.messages.len() == 1
            && self.out.messages[0]["role"] == "system"
        {
            let before = self.out.messages[0]["content"].as_str().unwrap_or_default();
            self.out.messages[0]["content"] = json!(format!("{before}\n\n{text}"));
            return;
        }
        self.say("system", text.to_string());
    }

    fn answer(&mut self, name: &str, value: &str) {
        if !self.style.answers_as_user {
            let id = call_id(name, self.answers, self.style);
            self.answers += 1;
            self.out
                .messages
                .push(json!({"role": "tool", "name": name, "tool_call_id": id, "content": value}));
            return;
        }
        let text = format!("<tool_response>\n{value}\n</tool_response>");
        match self.out.messages.last_mut() {
            // One turn for all answers to one call: some templates insist that roles take turns.
            Some(last) if self.answers > 0 => {
                let before = last["content"].as_str().unwrap_or_default();
                last["content"] = json!(format!("{before}\n{text}"));
            }
            _ => self.say("user", text),
        }
        self.answers += 1;
    }
}

/// Tools for a model whose template has no place for them.
fn described(tools: &[Json]) -> String {
    let mut text = String::from("You can call these functions. Their JSON schemas:\n");
    for tool in tools {
        text.push_str(&super::python::plain_json(&tool["function"]));
        text.push('\n');
    }
    text.push_str(
        "To call one, answer with a JSON object between <tool_call> and </tool_call>:\n\
         <tool_call>\n{\"name\": \"function name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>\n\
         The result comes between <tool_response> and </tool_response>.",
    );
    text
}

fn completed(tool: &Json) -> Json {
    let mut tool = tool.clone();
    if let Some(function) = tool["function"].as_object_mut() {
        function.entry("description").or_insert(json!(""));
        function
            .entry("parameters")
            .or_insert(json!({"type": "object", "properties": Map::new()}));
    }
    tool
}

/// A tool as templates want it. A bare function schema is wrapped.
pub fn tool(text: &str) -> Result<Json, String> {
    let schema: Json =
        serde_json::from_str(text).map_err(|e| format!("a tool's schema is not JSON: {e}"))?;
    let wrapped = if schema["function"].is_object() {
        schema
    } else {
        json!({"type": "function", "function": schema})
    };
    match wrapped["function"]["name"].as_str() {
        Some(name) if !name.is_empty() => Ok(wrapped),
        _ => Err("a tool's schema has no name; give {\"name\": …, \"description\": …, \"parameters\": …}".into()),
    }
}
