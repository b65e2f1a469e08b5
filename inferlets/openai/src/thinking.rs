//! Whether the model thinks before it answers, and how much: what the APIs say of it, told to the model's chat template.

use crate::api_error::ApiError;
use inferlet::model::Model;
use serde_json::{Map, Value};

type Parsed<T> = std::result::Result<T, ApiError>;

/// The variables by which templates switch thoughts on and off: Qwen's, GLM's and others'; DeepSeek's and Granite's.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// The variable of templates with grades, such as that of gpt-oss.
const GRADE: &str = "reasoning_effort";

/// Reads `reasoning_effort`, and `chat_template_kwargs` as other servers of open models have it.
pub fn apply(fields: &Map<String, Value>, model: &Model) -> Parsed<()> {
    if let Some(effort) = fields.get(GRADE).and_then(Value::as_str) {
        let (thinks, grade) = meaning(effort)?;
        for name in SWITCHES {
            // A template that refuses the value has another idea of the variable, and keeps its default.
            let _ = model.template_option(name, thinks);
        }
        let _ = model.template_option(GRADE, grade);
    }
    match fields.get("chat_template_kwargs") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(variables)) => {
            for (name, value) in variables {
                model
                    .template_option(name, value.clone())
                    .map_err(|error| ApiError::invalid("chat_template_kwargs", error))?;
            }
            Ok(())
        }
        Some(other) => Err(ApiError::invalid(
            "chat_template_kwargs",
            format!("'chat_template_kwargs' must be an object, not {other}"),
        )),
    }
}

/// Whether the model thinks, and the grade. The lowest grade is the closest to no thoughts where there is no switch.
fn meaning(effort: &str) -> Parsed<(bool, &'static str)> {
    Ok(match effort {
        "none" | "minimal" => (false, "low"),
        "low" => (true, "low"),
        "medium" => (true, "medium"),
        "high" | "xhigh" | "max" => (true, "high"),
        _ => {
            let text = format!(
                "'{GRADE}' must be none, minimal, low, medium, high, xhigh or max, not '{effort}'"
            );
            return Err(ApiError::invalid(GRADE, text));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efforts_are_switches_and_grades() {
        for (effort, thinks, grade) in [
            ("none", false, "low"),
            ("minimal", false, "low"),
            ("low", true, "low"),
            ("medium", true, "medium"),
            ("xhigh", true, "high"),
        ] {
            assert_eq!(meaning(effort).ok(), Some((thinks, grade)));
        }
        assert!(meaning("some").is_err());
    }
}
