//! The grammar of tool calls: what it accepts is what the decoder of calls reads, and nothing else.
use super::*;
use crate::grammar::Vocabulary;
use crate::template::call_grammar::grammar;
use crate::template::calls::Calls;
use crate::template::specials::Specials;

fn tools() -> Vec<Json> {
    let weather = json!({"name": "weather", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "wind": {"type": "boolean"}},
        "required": ["city"], "additionalProperties": false}});
    let stop = json!({"name": "stop"});
    [weather, stop]
        .map(|t| json!({"type": "function", "function": t}))
        .to_vec()
}

/// Whether the grammar takes the whole text, and nothing may follow.
fn takes(calls: &Calls, text: &str) -> bool {
    let tokenizer = bytes(&NAMES);
    let specials = Specials::new(tokenizer.specials());
    let grammar = grammar(calls, &specials, &tools()).unwrap().unwrap();
    let vocabulary = Vocabulary::new(tokenizer.clone(), &[SPECIAL + 1]).unwrap();
    let mut matcher = vocabulary.matcher(&grammar, 0).unwrap();
    let tokens = tokenizer.encode_template(text).unwrap();
    matcher.accept(&tokens).is_ok() && matcher.is_complete()
}

#[test]
fn objects() {
    let calls = Calls::Object {
        open: "<call>".into(),
        close: "</call>".into(),
        name_key: "name".into(),
        arguments_key: "arguments".into(),
    };
    let call = |body: &str| takes(&calls, &format!("<call>\n{body}\n</call>"));
    assert!(call(
        r#"{"name": "weather", "arguments": {"city": "Bern"}}"#
    ));
    assert!(call(
        r#"{"name": "weather", "arguments": {"city": "Bern", "days": 3, "wind": true}}"#
    ));
    assert!(call(r#"{"name": "stop", "arguments": {}}"#));
    assert!(!call(r#"{"name": "weather", "arguments": {}}"#));
    assert!(!call(r#"{"name": "weather", "arguments": {"city": 1}}"#));
    assert!(!call(r#"{"name": "storm", "arguments": {}}"#));
    assert!(!takes(&calls, "hello"));
}

#[test]
fn special_tokens_are_those_tokens() {
    let calls = Calls::Named {
        open: "[INST]".into(),
        between: "[/INST]".into(),
        close: "".into(),
    };
    assert!(takes(&calls, "[INST]weather[/INST]{\"city\": \"Bern\"}"));
    assert!(!takes(&calls, "[INST]weather{\"city\": \"Bern\"}"));
}

#[test]
fn tags() {
    let calls = Calls::Tagged {
        open: "<f=".into(),
        first: "<p>".into(),
        middle: "</p><v>".into(),
        last: "</v>".into(),
        close: "</f>".into(),
    };
    assert!(takes(
        &calls,
        "<f=weather<p>city</p><v>Bern</v><p>days</p><v>3</v></f>"
    ));
    assert!(takes(&calls, "<f=weather<p>city</p><v>Bern</v></f>"));
    assert!(!takes(&calls, "<f=weather<p>days</p><v>3</v></f>"));
    assert!(takes(&calls, "<f=stop</f>"));
}

#[test]
fn python() {
    let calls = Calls::Python {
        open: "[INST]".into(),
        close: "[/INST]".into(),
    };
    assert!(takes(
        &calls,
        "[INST][weather(city=\"Bern\", days=3, wind=True)][/INST]"
    ));
    assert!(takes(
        &calls,
        "[INST][weather(city=\"Bern\", wind=False)][/INST]"
    ));
    assert!(!takes(&calls, "[INST][weather(wind=True)][/INST]"));
    assert!(takes(&calls, "[INST][stop()][/INST]"));
}

#[test]
fn a_schema_that_is_not_enforced_is_refused_with_its_tool() {
    let calls = Calls::Named {
        open: "<f=".into(),
        between: "".into(),
        close: "".into(),
    };
    let tool = json!({"function": {"name": "odd", "parameters": {"contains": {}}}});
    let specials = Specials::new(&[]);
    let error = grammar(&calls, &specials, &[tool]).unwrap_err().to_string();
    assert!(
        error.contains("'odd'") && error.contains("contains"),
        "{error}"
    );
    assert!(grammar(&calls, &specials, &[]).unwrap().is_none());
}
