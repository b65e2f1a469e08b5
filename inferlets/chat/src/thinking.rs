//! `/think`: whether the model thinks before it answers, and how much, as far as its chat template can be told.

use inferlet::prelude::*;

/// The variables by which templates switch thoughts on and off.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// The variable of templates with grades.
const GRADE: &str = "reasoning_effort";

/// Returns what to tell the user. On an error nothing changes.
pub fn set(model: &Model, name: &str, how: &str) -> Result<String> {
    let grade = match how {
        "on" => Some("medium"),
        "off" => None,
        "low" | "medium" | "high" => Some(how),
        _ => {
            let given = how.escape_default();
            return Err(format!(
                "/think takes on, off, low, medium or high, not {given}"
            ));
        }
    };
    // The variables count for a handle of the model. So another one is asked what they change.
    let trial = Model::load(name)?;
    let mut written = Vec::new();
    for grade in [None, Some("low"), Some("high")] {
        tell(&trial, grade);
        written.push(beginning(&trial)?);
    }
    let (can_stop, grades) = (written[0] != written[1], written[1] != written[2]);
    if !can_stop && !grades {
        return Err("the chat template of this model has no switch for thoughts".into());
    }
    tell(model, grade);
    Ok(match (how, grades) {
        ("off", _) if can_stop => "no thoughts from the next turn on".into(),
        ("off", _) => {
            "the model thinks as little as it can, in conversations that begin from now on".into()
        }
        ("on", _) if can_stop => "thoughts from the next turn on".into(),
        (_, true) => "this setting applies to conversations that begin from now on".into(),
        (_, false) => "thoughts from the next turn on; this model has no levels of thinking".into(),
    })
}

/// A template that refuses a value keeps its default.
fn tell(model: &Model, grade: Option<&str>) {
    for name in SWITCHES {
        let _ = model.template_option(name, grade.is_some());
    }
    let _ = model.template_option(GRADE, grade.unwrap_or("low"));
}

/// How a conversation begins with these variables.
fn beginning(model: &Model) -> Result<Vec<u32>> {
    let mut context = Context::new(model)?;
    context.user("?").cue();
    Ok(context.buffer().to_vec())
}
