//! `#[inferlet::main]` expands to calls of these functions. They parse the input from JSON, run the user's future to
//! its end, and write the output as JSON.

use std::any::Any;
use std::fmt::Display;
use std::future::Future;

use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::executor;

pub fn run<I, O, E, F>(input: String, main: impl FnOnce(I) -> F) -> Result<String, String>
where
    I: DeserializeOwned + 'static,
    O: Serialize + 'static,
    E: Display + 'static,
    F: Future<Output = Result<O, E>> + 'static,
{
    let input = decode(input)?;
    let output = executor::run(main(input))
        .ok_or("every task waits for another one: nothing is left that could wake the inferlet")?;
    encode(output.map_err(|error| format!("{error:#}"))?)
}

/// A `String` is the text itself; anything else is parsed from it as JSON. No text stands for `{}`.
fn decode<I: DeserializeOwned + 'static>(input: String) -> Result<I, String> {
    let mut text = Some(input);
    if let Some(slot) = (&mut text as &mut dyn Any).downcast_mut::<Option<I>>() {
        return Ok(slot.take().expect("just filled"));
    }
    let text = text.unwrap_or_default();
    let json = if text.trim().is_empty() { "{}" } else { text.as_str() };
    serde_json::from_str(json).map_err(|error| {
        format!("the input does not fit this inferlet: {error} (the input was: {})", shorten(&text))
    })
}

/// A `String` is the text itself, and `()` is the empty text, as in every language.
fn encode<O: Serialize + 'static>(output: O) -> Result<String, String> {
    let value = &output as &dyn Any;
    if let Some(text) = value.downcast_ref::<String>() {
        return Ok(text.clone());
    }
    if value.is::<()>() {
        return Ok(String::new());
    }
    serde_json::to_string(&output)
        .map_err(|error| format!("the return value cannot be written as JSON: {error}"))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_pass_untouched_and_the_rest_is_json() {
        assert_eq!(decode::<String>("{not json".into()).unwrap(), "{not json");
        assert_eq!(decode::<Vec<u32>>("[1, 2]".into()).unwrap(), [1, 2]);
        assert!(decode::<u32>("\"x\"".into()).unwrap_err().contains("does not fit"));
        assert_eq!(encode("plain".to_string()).unwrap(), "plain");
        assert_eq!(encode(Some("json")).unwrap(), "\"json\"");
    }

    #[test]
    fn nothing_is_the_empty_text_and_null_is_json() {
        assert_eq!(encode(()).unwrap(), "");
        assert_eq!(encode(None::<u32>).unwrap(), "null");
        assert_eq!(encode(serde_json::Value::Null).unwrap(), "null");
    }

    #[test]
    fn no_input_is_an_empty_object() {
        #[derive(serde::Deserialize)]
        struct Input {
            #[serde(default)]
            name: String,
        }
        for text in ["", " \n", "{}"] {
            assert_eq!(decode::<Input>(text.into()).unwrap().name, "", "{text:?}");
            assert_eq!(decode::<serde_json::Value>(text.into()).unwrap(), serde_json::json!({}));
        }
        assert_eq!(decode::<String>("".into()).unwrap(), "");
        assert!(decode::<Vec<u32>>("".into()).is_err());
    }

    #[test]
    fn an_error_keeps_its_text() {
        let failed = run("".into(), |_: String| async { Err::<String, _>("no".to_string()) });
        assert_eq!(failed, Err("no".to_string()));
    }

    #[test]
    fn a_program_that_nobody_can_wake_says_so() {
        let stuck = run("".into(), |_: String| async {
            std::future::pending::<()>().await;
            Ok::<_, String>(String::new())
        });
        assert!(stuck.unwrap_err().contains("waits"));
    }
}
