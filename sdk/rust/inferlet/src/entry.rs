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

/// A `String` is the text itself; anything else is parsed from it as JSON.
fn decode<I: DeserializeOwned + 'static>(input: String) -> Result<I, String> {
    let mut text = Some(input);
    if let Some(slot) = (&mut text as &mut dyn Any).downcast_mut::<Option<I>>() {
        return Ok(slot.take().expect("just filled"));
    }
    let text = text.unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| {
        format!("the input does not fit this inferlet: {error} (the input was: {})", shorten(&text))
    })
}

fn encode<O: Serialize + 'static>(output: O) -> Result<String, String> {
    if let Some(text) = (&output as &dyn Any).downcast_ref::<String>() {
        return Ok(text.clone());
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
