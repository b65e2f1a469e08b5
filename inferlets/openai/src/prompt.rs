//! The turns of a conversation, written to a context as the model's template writes them.

use inferlet::model::Model;
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

/// Writes a whole conversation, up to where the model's turn begins. `switches` is what the template is told besides: a
/// JSON object of variables, or an empty text. Fails if the template cannot tell the model about its tools.
pub fn write(context: &mut Context, conversation: &[Said], switches: &str) -> Result<()> {
    let mut turns: Vec<Turn> = conversation.iter().map(turn).collect();
    turns.push(cue(switches));
    if let Ok(tokens) = extend(context.model().inner(), &[], &turns) {
        context.append(&tokens);
        return Ok(());
    }
    // The template refuses the conversation as a whole, or the switches.
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

/// The tokens that begin the model's turn, as far as they are there because of the switches.
pub fn cued_by(model: &Model, switches: &str) -> Vec<u32> {
    if switches.is_empty() {
        return Vec::new();
    }
    let tokens = |switches: &str| {
        let cue = extend(model.inner(), &[Kind::User], &[cue(switches)]);
        cue.unwrap_or_default()
    };
    let (plain, switched) = (tokens(""), tokens(switches));
    let same = plain.iter().zip(&switched).take_while(|(a, b)| a == b);
    let same = same.count();
    switched[same..].to_vec()
}

/// What a template is told of `reasoning_effort`. The variables are those that templates of open models have.
pub fn switches(effort: Option<&str>) -> String {
    let effort = match effort {
        Some("none") => {
            let off = json!({ "enable_thinking": false, "thinking": false });
            return off.to_string();
        }
        Some("minimal" | "low") => "low",
        Some("medium") => "medium",
        Some("high" | "xhigh" | "max") => "high",
        _ => return String::new(),
    };
    json!({ "enable_thinking": true, "thinking": true, "reasoning_effort": effort }).to_string()
}

fn cue(switches: &str) -> Turn {
    Turn {
        kind: Kind::Cue,
        text: switches.into(),
        name: String::new(),
        tools: Vec::new(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efforts_are_switches_of_templates() {
        assert_eq!(switches(None), "");
        assert_eq!(switches(Some("whatever")), "");
        assert!(switches(Some("none")).contains("\"enable_thinking\":false"));
        for (effort, told) in [("minimal", "low"), ("medium", "medium"), ("xhigh", "high")] {
            let told = format!("\"reasoning_effort\":\"{told}\"");
            assert!(switches(Some(effort)).contains(&told));
        }
    }
}
