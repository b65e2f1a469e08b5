//! The messages and tools that a template is given for turns, and what the template wants of them.
use super::turns::{Call, Turn};
use serde_json::{json, Map, Value as Json};

/// The tokens around LFM2's calls.
pub const PYTHON_CALLS: (&str, &str) = ("<|tool_call_start|>", "<|tool_call_end|>");

/// The properties of a template, found by probing it.
#[derive(Clone, Debug, PartialEq)]
pub struct Style {
    /// It refuses or drops system turns. Their text then goes in front of the next user's turn.
    pub folds_system: bool,
    /// It does not write tools. They are then described in a system turn.
    pub describes_tools: bool,
    /// It does not know a tool's answers: they come as a user's turn.
    pub answers_as_user: bool,
    /// It writes tool calls.
    pub writes_calls: bool,
    /// It writes none, but the model writes them as Python's between `PYTHON_CALLS`, as LFM2 does.
    pub python_calls: bool,
    /// It writes only one call of a turn, or refuses several: each call is a turn of its own.
    pub one_call: bool,
    /// Whether the template writes no calls in a turn that has a text. Then the text is left out.
    pub text_hides_calls: bool,
    /// It wants an answer to follow a call, not plain text.
    pub wants_calls: bool,
    /// A call's content: null or an empty text; its arguments: an object or JSON text.
    pub null_content: bool,
    pub text_arguments: bool,
    /// Whether the template knows a call by its id only: `functions.name:0`.
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
            python_calls: false,
            one_call: false,
            text_hides_calls: false,
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

impl From<Vec<Json>> for Conversation {
    /// Messages without tools, and without the beginning of the model's turn.
    fn from(messages: Vec<Json>) -> Self {
        Conversation {
            messages,
            ..Default::default()
        }
    }
}

/// A tool call's id as every family takes it: nine letters or digits. A call and its answer get the same, whatever the
/// form of the id that the caller gave.
fn call_id(name: &str, id: &str, n: usize, style: &Style) -> String {
    if style.named_ids {
        return format!("functions.{name}:{n}");
    }
    if id.is_empty() {
        return format!("{n:09}");
    }
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return id.to_string();
    }
    // FNV-1a
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{:09}", hash % 1_000_000_000)
}

/// An assistant's turn that calls tools.
pub fn call_message(text: &str, calls: &[Call], style: &Style) -> Json {
    let content = match text {
        "" if style.null_content => Json::Null,
        text => json!(text),
    };
    json!({"role": "assistant", "content": content, "tool_calls": call_list(calls, style)})
}

fn call_list(calls: &[Call], style: &Style) -> Json {
    let one = |(i, call): (usize, &Call)| {
        let arguments = match style.text_arguments {
            true => json!(super::python::plain_json(&call.arguments)),
            false => call.arguments.clone(),
        };
        let function = json!({"name": call.name, "arguments": arguments});
        let id = call_id(&call.name, &call.id, i, style);
        json!({"id": id, "type": "function", "function": function})
    };
    calls.iter().enumerate().map(one).collect()
}

/// The calls that answers at the beginning of `turns` belong to, all with these arguments.
pub fn answered(turns: &[Turn], arguments: &Json) -> Vec<Call> {
    let call = |turn: &Turn| match turn {
        Turn::Answer { name, id, .. } => Some(Call {
            name: name.clone(),
            id: id.clone(),
            arguments: arguments.clone(),
        }),
        _ => None,
    };
    turns.iter().map_while(call).collect()
}

/// The same conversation with each call in a turn of its own, and the call's answer after it.
fn one_by_one(turns: &[Turn]) -> Vec<Turn> {
    let mut out = Vec::new();
    let mut rest = turns;
    while let Some((turn, behind)) = rest.split_first() {
        rest = behind;
        let Turn::Calls { text, calls } = turn else {
            out.push(turn.clone());
            continue;
        };
        let count = answered(behind, &Json::Null).len();
        let mut answers = behind[..count].to_vec();
        rest = &behind[count..];
        for (i, call) in calls.iter().enumerate() {
            out.push(Turn::Calls {
                text: if i == 0 { text.clone() } else { String::new() },
                calls: vec![call.clone()],
            });
            let own = answers.iter().position(|turn| {
                matches!(turn, Turn::Answer { name, id, .. } if *name == call.name && *id == call.id)
            });
            out.extend(own.map(|at| answers.remove(at)));
        }
        out.append(&mut answers);
    }
    out
}

impl Conversation {
    pub fn new(turns: &[Turn], style: &Style) -> Self {
        let single;
        let turns = match style.one_call {
            true => {
                single = one_by_one(turns);
                &single[..]
            }
            false => turns,
        };
        let mut to = Builder {
            style,
            out: Conversation::default(),
            folded: None,
            called: Vec::new(),
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
    /// The ids of the last turn's calls, as the caller gave them.
    called: Vec<String>,
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
                let calls = answered(rest, &json!({}));
                if self.style.wants_calls && !calls.is_empty() {
                    message["tool_calls"] = call_list(&calls, self.style);
                }
                self.begin_calls(&calls);
                self.out.messages.push(message);
            }
            Turn::Calls { text, calls } => {
                self.begin_calls(calls);
                if self.style.python_calls {
                    return self.say("assistant", as_python(text, calls));
                }
                if !self.style.writes_calls {
                    return self.say("assistant", as_text(text, calls));
                }
                let text = if self.style.text_hides_calls {
                    ""
                } else {
                    text.as_str()
                };
                self.out
                    .messages
                    .push(call_message(text, calls, self.style));
            }
            Turn::Answer { name, id, value } => self.answer(name, id, value),
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

    fn begin_calls(&mut self, calls: &[Call]) {
        self.called = calls.iter().map(|call| call.id.clone()).collect();
        self.answers = 0;
    }

    fn answer(&mut self, name: &str, id: &str, value: &str) {
        if !self.style.answers_as_user {
            let known = self.called.iter().position(|of| of == id && !id.is_empty());
            let id = call_id(name, id, known.unwrap_or(self.answers), self.style);
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

/// Calls for a model whose template has no place for them, in the form that `described` asks for.
fn as_text(text: &str, calls: &[Call]) -> String {
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(text.to_string());
    }
    for call in calls {
        let object = json!({"name": call.name, "arguments": call.arguments});
        let object = super::python::plain_json(&object);
        parts.push(format!("<tool_call>\n{object}\n</tool_call>"));
    }
    parts.join("\n")
}

/// Calls as LFM2 writes them: `[name(key="value"), …]` between its tokens.
fn as_python(text: &str, calls: &[Call]) -> String {
    let one = |call: &Call| {
        let arguments = call.arguments.as_object().into_iter().flatten();
        let pair = |(key, value): (&String, &Json)| format!("{key}={}", python_value(value));
        let arguments: Vec<String> = arguments.map(pair).collect();
        format!("{}({})", call.name, arguments.join(", "))
    };
    let calls: Vec<String> = calls.iter().map(one).collect();
    let (open, close) = PYTHON_CALLS;
    format!("{text}{open}[{}]{close}", calls.join(", "))
}

/// As the grammar of calls has it: Python's constants, and JSON for everything else.
fn python_value(value: &Json) -> String {
    match value {
        Json::Bool(true) => "True".into(),
        Json::Bool(false) => "False".into(),
        Json::Null => "None".into(),
        other => super::python::plain_json(other),
    }
}

/// Describes the tools, for a model whose template has no place for them.
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
