//! Options of a template: variables such as `enable_thinking`, which its author left to the user.
use super::marks::GUARD;
use serde_json::{Map, Value as Json};

/// Options of one template.
const COUNT: usize = 16;
/// Of a name.
const NAME_BYTES: usize = 64;
/// Of all values, written as JSON.
const VALUE_BYTES: usize = 4_096;
/// The variables that say what to render.
pub const CONVERSATION: [&str; 4] = ["messages", "tools", "documents", "add_generation_prompt"];

/// Names and their values: texts, booleans and numbers.
pub type Options = Map<String, Json>;

/// The options that their JSON text says; an empty text says none.
pub fn parse(text: &str) -> Result<Options, String> {
    if text.is_empty() {
        return Ok(Options::new());
    }
    serde_json::from_str(text).map_err(|e| format!("the options are not a JSON object: {e}"))
}

/// Sets an option to a value, which is JSON, or removes it. `own` are the variables that the model's files set.
pub fn set(
    options: &mut Options,
    own: &Map<String, Json>,
    name: &str,
    value: Option<&str>,
) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(is_name) {
        return Err(format!(
            "the option {name:?} is not a name of 1 to {NAME_BYTES} letters, digits and underscores"
        ));
    }
    if name.starts_with("__") || CONVERSATION.contains(&name) || own.contains_key(name) {
        return Err(format!(
            "the option '{name}' is a variable that the engine sets itself"
        ));
    }
    let Some(value) = value else {
        options.remove(name);
        return Ok(());
    };
    let value = read(name, value)?;
    options.insert(name.into(), value);
    if options.len() > COUNT {
        return Err(format!(
            "there are {} options; at most {COUNT} are allowed",
            options.len()
        ));
    }
    let bytes: usize = options.values().map(|value| value.to_string().len()).sum();
    if bytes > VALUE_BYTES {
        return Err(format!(
            "the options' values have {bytes} bytes; at most {VALUE_BYTES} are allowed"
        ));
    }
    Ok(())
}

fn read(name: &str, value: &str) -> Result<Json, String> {
    if value.len() > VALUE_BYTES {
        return Err(format!(
            "the option '{name}' has {} bytes; at most {VALUE_BYTES} are allowed",
            value.len()
        ));
    }
    match serde_json::from_str(value) {
        Ok(Json::String(text)) if text.chars().any(is_reserved) => Err(format!(
            "the option '{name}' has noncharacters, such as U+FDD0"
        )),
        Ok(value @ (Json::String(_) | Json::Bool(_) | Json::Number(_))) => Ok(value),
        _ => Err(format!(
            "the option '{name}' is not a JSON string, boolean or number: {value}"
        )),
    }
}

/// The characters that mark places of a rendering, or may replace such characters (`marks.rs`).
fn is_reserved(c: char) -> bool {
    (GUARD..='\u{FDEF}').contains(&c) || c >= '\u{F0000}'
}
