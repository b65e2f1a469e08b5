//! The turns of a conversation, written to a context as the model's template writes them.

use inferlet::pie::plus::turns::{extend, Kind, Turn};
use inferlet::prelude::*;
use inferlet::tools::Call;
use serde_json::json;

pub enum Said {
    /// The tools that the model is told about, as JSON texts.
    Tools(Vec<String>),
    System(String),
    User(String),
    Assistant(String, Vec<Call>),
    Answer(Call, String),
}

/// Writes a whole conversation, up to where the model's turn begins. Fails if the template cannot tell the model about its
/// tools.
pub fn write(context: &mut Context, conversation: &[Said]) -> Result<()> {
    let mut turns: Vec<Turn> = conversation.iter().map(turn).collect();
    turns.push(Turn {
        kind: Kind::Cue,
        text: String::new(),
        name: String::new(),
        tools: Vec::new(),
    });
    if let Ok(tokens) = extend(context.model().inner(), &[], &turns) {
        context.append(&tokens);
        return Ok(());
    }
    // The template refuses the conversation as a whole.
    for said in conversation {
        match said {
            Said::Tools(tools) => drop(context.equip_tools(tools)?),
            Said::System(text) => drop(context.system(text)),
            Said::User(text) => drop(context.user(text)),
            Said::Assistant(text, calls) => drop(context.assistant_calls(text, calls)),
            Said::Answer(call, value) => drop(context.answer_call(call, value)),
        }
    }
    context.cue();
    Ok(())
}

fn turn(said: &Said) -> Turn {
    let (kind, text) = match said {
        Said::Tools(_) => (Kind::Tools, ""),
        Said::System(text) => (Kind::System, text.as_str()),
        Said::User(text) => (Kind::User, text.as_str()),
        Said::Assistant(text, _) => (Kind::Assistant, text.as_str()),
        Said::Answer(_, value) => (Kind::Answer, value.as_str()),
    };
    let (name, tools) = match said {
        Said::Tools(tools) => (String::new(), tools.clone()),
        Said::Assistant(_, calls) => (String::new(), calls.iter().map(written).collect()),
        Said::Answer(call, _) if call.id.is_empty() => (call.name.clone(), Vec::new()),
        Said::Answer(call, _) => (call.name.clone(), vec![call.id.clone()]),
        _ => Default::default(),
    };
    Turn {
        kind,
        text: text.into(),
        name,
        tools,
    }
}

/// A call as the engine's contract has it. The arguments stay as they were written.
fn written(call: &Call) -> String {
    let arguments = match call.arguments.trim() {
        "" => "{}",
        arguments => arguments,
    };
    let (id, name) = (json!(call.id), json!(call.name));
    format!("{{\"arguments\": {arguments}, \"id\": {id}, \"name\": {name}}}")
}
