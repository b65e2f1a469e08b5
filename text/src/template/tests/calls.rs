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
    takes_of(calls, &tools(), text)
}

fn takes_of(calls: &Calls, tools: &[Json], text: &str) -> bool {
    let tokenizer = bytes(&NAMES);
    let specials = Specials::new(tokenizer.specials());
    let grammar = grammar(calls, &specials, tools).unwrap().unwrap();
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
        list: false,
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
fn lists_of_objects() {
    let calls = Calls::Object {
        open: "[INST]".into(),
        close: "".into(),
        name_key: "name".into(),
        arguments_key: "arguments".into(),
        list: true,
    };
    let stop = r#"{"name": "stop", "arguments": {}}"#;
    assert!(takes(&calls, &format!("[INST] [{stop}]")));
    assert!(takes(&calls, &format!("[INST][{stop}, {stop}]")));
    assert!(takes(&calls, &format!("[INST]{stop}")));
    assert!(!takes(&calls, "[INST] [ ]") && !takes(&calls, &format!("[INST][{stop},]")));
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
fn a_mark_that_is_a_word_may_follow_a_blank() {
    let calls = Calls::Named {
        open: "to=".into(),
        between: "".into(),
        close: "".into(),
    };
    for text in ["to=stop{}", " to=stop{}"] {
        assert!(takes(&calls, text), "{text}");
    }
    assert!(!takes(&calls, "  to=stop{}"));
}

#[test]
fn tags() {
    let calls = Calls::Tagged {
        open: "<f=".into(),
        first: "<p>".into(),
        middle: "</p><v>".into(),
        last: "</v>".into(),
        close: "</f>".into(),
        lines: false,
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

#[test]
fn what_only_the_compiler_finds_names_the_tool_and_the_keyword() {
    let properties =
        json!({"b": {"type": "null"}, "a": {"allOf": [{"type": "string"}, {"type": "integer"}]}});
    let wrong = json!({"type": "object", "properties": properties, "required": ["a"]});
    let mut tools = tools();
    tools.push(tool("odd", wrong));
    let calls = [
        Calls::Object {
            open: "<call>".into(),
            close: "</call>".into(),
            name_key: "name".into(),
            arguments_key: "arguments".into(),
            list: false,
        },
        Calls::Named {
            open: "<f=".into(),
            between: "".into(),
            close: "".into(),
        },
    ];
    let tokenizer = bytes(&NAMES);
    let specials = Specials::new(tokenizer.specials());
    for calls in calls {
        let grammar = grammar(&calls, &specials, &tools).unwrap().unwrap();
        let vocabulary = Vocabulary::new(tokenizer.clone(), &[SPECIAL + 1]).unwrap();
        let error = vocabulary.matcher(&grammar, 0).err().unwrap().to_string();
        let expected = "the parameters of the tool 'odd': /properties/a/allOf/0/type: ";
        assert!(error.starts_with(expected), "{calls:?}: {error}");
    }
}

fn tool(name: &str, parameters: Json) -> Json {
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

fn tagged(lines: bool) -> Calls {
    Calls::Tagged {
        open: "<f=".into(),
        first: "<p=".into(),
        middle: ">".into(),
        last: "</p>".into(),
        close: "</f>".into(),
        lines,
    }
}

#[test]
fn references_lead_into_the_tools_own_schema() {
    let list = tool(
        "list",
        json!({"type": "object", "additionalProperties": false, "required": ["head"],
            "properties": {"head": {"$ref": "#/$defs/item"}, "tail": {"$ref": "#"}},
            "$defs": {"item": {"type": "integer", "maximum": 9}}}),
    );
    let calls = Calls::Object {
        open: "[INST]".into(),
        close: "[/INST]".into(),
        name_key: "name".into(),
        arguments_key: "arguments".into(),
        list: false,
    };
    let call = |arguments: &str| {
        let text = format!("[INST]{{\"name\": \"list\", \"arguments\": {arguments}}}[/INST]");
        takes_of(&calls, std::slice::from_ref(&list), &text)
    };
    assert!(call(r#"{"head": 1, "tail": {"head": 2}}"#));
    assert!(!call(
        r#"{"head": 1, "tail": {"name": "list", "arguments": {}}}"#
    ));
    assert!(!call(r#"{"head": 10}"#));
    let tags = |body: &str| {
        let text = format!("<f=list{body}</f>");
        takes_of(&tagged(false), std::slice::from_ref(&list), &text)
    };
    assert!(tags("<p=head>1</p><p=tail>{\"head\": 2}</p>"));
    assert!(!tags("<p=head>10</p>") && !tags("<p=head>1</p><p=tail>{}</p>"));
}

#[test]
fn all_of_a_tools_schema_counts() {
    let trip = tool(
        "trip",
        json!({"$ref": "#/$defs/trip", "$defs": {
            "trip": {"allOf": [{"$ref": "#/$defs/base"}, {"required": ["days"]}],
                "properties": {"days": {"type": "integer", "minimum": 1}}},
            "base": {"type": "object", "properties": {"to": {"enum": ["Bern", 7]},
                "days": {"type": "integer", "maximum": 3}}, "required": ["to"]}}}),
    );
    let tags = |body: &str| {
        let text = format!("<f=trip{body}</f>");
        takes_of(&tagged(false), std::slice::from_ref(&trip), &text)
    };
    assert!(tags("<p=to>Bern</p><p=days>3</p>") && tags("<p=to>7</p><p=days>1</p>"));
    assert!(!tags("<p=to>Bern</p>") && !tags("<p=to>Bern</p><p=days>4</p>"));
    let error = grammar(
        &tagged(false),
        &Specials::new(&[]),
        &[tool("odd", json!({"anyOf": [{"required": ["a"]}]}))],
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`anyOf` is not enforced"), "{error}");
}

#[test]
fn texts_between_tags_keep_their_rules() {
    let post = tool(
        "post",
        json!({"type": "object", "required": ["text"], "properties": {
            "text": {"type": "string"},
            "code": {"type": "string", "pattern": "^[a-z]<[0-9]$"},
            "name": {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 3}, {"type": "null"}]},
            "day": {"type": "string", "format": "date"}}}),
    );
    let tags = |body: &str| {
        let text = format!("<f=post{body}</f>");
        takes_of(&tagged(false), std::slice::from_ref(&post), &text)
    };
    let text = "<p=text>a < b </ c\n</p>";
    assert!(tags(text) && tags("<p=text></p>"));
    assert!(!tags("<p=text>a</p>b</p>"), "the text ends at its mark");
    assert!(tags(&format!("{text}<p=code>x<7</p>")));
    assert!(!tags(&format!("{text}<p=code>x<77</p>")));
    assert!(tags(&format!("{text}<p=name>Zoë</p>")) && tags(&format!("{text}<p=name>null</p>")));
    assert!(!tags(&format!("{text}<p=name>Zoes</p>")));
    assert!(tags(&format!("{text}<p=day>2024-02-29</p>")));
    assert!(!tags(&format!("{text}<p=day>2024-02-30</p>")));
}

#[test]
fn values_on_their_own_lines() {
    let lines = |text: &str| takes(&tagged(true), text);
    assert!(lines(
        "<f=weather\n<p=city>\nBern\n</p>\n<p=days>\n3\n</p>\n</f>"
    ));
    assert!(lines("<f=weather<p=city>\nBern\n\nBasel\n</p></f>"));
    assert!(!lines("<f=weather<p=city>Bern</p></f>"));
}

#[test]
fn the_first_argument_in_python_has_no_comma() {
    let calls = Calls::Python {
        open: "[INST]".into(),
        close: "[/INST]".into(),
    };
    let may = tool(
        "may",
        json!({"type": "object", "properties": {"a": {"type": "integer"},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "c": {"enum": [true, "x"]}}}),
    );
    let call = |arguments: &str| {
        let text = format!("[INST][may({arguments})][/INST]");
        takes_of(&calls, std::slice::from_ref(&may), &text)
    };
    for arguments in [
        "",
        "a=1",
        "b=None",
        "c=True",
        "a=1, c=\"x\"",
        "b=\"y\", c=True",
        "a=1, b=None, c=True",
    ] {
        assert!(call(arguments), "{arguments}");
    }
    for arguments in [", b=None", "a=1b=None", "a=1,", "c=true", "b=null"] {
        assert!(!call(arguments), "{arguments}");
    }
}

/// Each property is checked with all definitions.
#[test]
fn the_schemas_of_all_tools_have_one_budget() {
    let definitions: serde_json::Map<String, Json> = (0..1_500)
        .map(|n| (format!("d{n}"), json!({"type": "string", "maxLength": n})))
        .collect();
    let properties: serde_json::Map<String, Json> = (0..1_500)
        .map(|n| {
            (
                format!("p{n}"),
                json!({"$ref": format!("#/$defs/d{n}"), "title": "p"}),
            )
        })
        .collect();
    let large = tool(
        "large",
        json!({"properties": properties, "$defs": definitions}),
    );
    let calls = Calls::Python {
        open: "[INST]".into(),
        close: "".into(),
    };
    let error = grammar(&calls, &Specials::new(&[]), &[large]).unwrap_err();
    assert_eq!(error.kind, crate::grammar::ErrorKind::TooSlow, "{error}");
}
