//! Sources that are wrong, too large or hostile. Each gives an error of its kind, with its place, in a short time.
use super::*;
use std::time::{Duration, Instant};

fn schema(text: &str) -> Error {
    error(Grammar::from_json_schema(text))
}

fn shown(text: &str) -> String {
    schema(text).to_string()
}

#[test]
fn keywords_that_are_not_enforced_are_refused_by_name() {
    for (keyword, value) in [
        ("uniqueItems", "true"),
        ("contains", "{}"),
        ("minContains", "1"),
        ("maxContains", "1"),
        ("unevaluatedItems", "false"),
        ("unevaluatedProperties", "false"),
        ("$dynamicRef", "\"#\""),
        ("$dynamicAnchor", "\"a\""),
        ("$recursiveRef", "\"#\""),
        ("nullable", "true"),
        ("maxlength", "3"),
        ("requierd", "[]"),
    ] {
        let text = format!("{{\"properties\": {{\"a/b\": {{\"{keyword}\": {value}}}}}}}");
        let error = schema(&text);
        assert_eq!(error.kind, ErrorKind::Unsupported, "{text}");
        let place = Place::Pointer(format!("/properties/a~1b/{keyword}"));
        assert_eq!(error.place, Some(place));
        assert!(error.text.contains(&format!("`{keyword}`")), "{error}");
    }
    assert_eq!(
        shown(r#"{"items": {"uniqueItems": true}}"#),
        "/items/uniqueItems: the keyword `uniqueItems` is not enforced"
    );
}

#[test]
fn formats_that_are_not_enforced_are_refused() {
    let text = shown(r#"{"format": "iri"}"#);
    assert!(text.starts_with("/format: the format \"iri\" is not enforced; these are: date-time"));
    assert!(shown(r#"{"format": "unknown"}"#).contains("not enforced"));
    assert!(shown(r#"{"format": 3}"#).contains("not enforced"));
}

#[test]
fn values_of_the_wrong_kind_are_named() {
    for (text, expected) in [
        (r#"5"#, "the schema: a schema is an object, true or false"),
        (
            r#"{"type": "strin"}"#,
            "/type: `type` is one of null, boolean",
        ),
        (r#"{"type": []}"#, "/type: `type` is one of"),
        (r#"{"type": 5}"#, "/type: `type` is one of"),
        (r#"{"enum": []}"#, "/enum: `enum` is a list"),
        (
            r#"{"minLength": -1}"#,
            "/minLength: `minLength` is a whole number",
        ),
        (
            r#"{"maxItems": 1.5}"#,
            "/maxItems: `maxItems` is a whole number",
        ),
        (
            r#"{"minimum": "3"}"#,
            "/minimum: `minimum` is a number, not \"3\"",
        ),
        (
            r#"{"exclusiveMinimum": true}"#,
            "/exclusiveMinimum: `exclusiveMinimum` is a number",
        ),
        (
            r#"{"multipleOf": 0}"#,
            "/multipleOf: `multipleOf` is a number above 0",
        ),
        (r#"{"required": "a"}"#, "/required: `required` is a list"),
        (r#"{"properties": []}"#, "/properties: an object of schemas"),
        (
            r#"{"properties": {"a": 1}}"#,
            "/properties/a: a schema is an object",
        ),
        (r#"{"anyOf": []}"#, "/anyOf: a list of at least one schema"),
        (r#"{"allOf": [{}, 1]}"#, "/allOf/1: a schema is an object"),
        (
            r#"{"pattern": 1}"#,
            "/pattern: `pattern` is a regular expression",
        ),
        (
            r#"{"pattern": "("}"#,
            "/pattern: the regular expression \"(\" is not accepted",
        ),
        (
            r#"{"pattern": "(?=a)b"}"#,
            "/pattern: the regular expression",
        ),
        (
            r#"{"patternProperties": {"[": {}}}"#,
            "/patternProperties/[: the regular expression",
        ),
    ] {
        assert!(shown(text).starts_with(expected), "{text}: {}", shown(text));
    }
}

#[test]
fn a_grammar_that_never_ends_says_so() {
    let error = error(Grammar::from_lark("start: a\na: a"));
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.text.contains("no text can match"), "{error}");
}

#[test]
fn contradictory_bounds_are_told() {
    for text in [
        r#"{"minimum": 5, "maximum": 3}"#,
        r#"{"exclusiveMinimum": 3, "maximum": 3}"#,
        r#"{"minLength": 3, "maxLength": 2}"#,
        r#"{"minItems": 3, "maxItems": 2}"#,
        r#"{"minProperties": 3, "maxProperties": 2}"#,
    ] {
        assert!(shown(text).contains("no value meets both"), "{text}");
    }
    assert!(schema("false").kind == ErrorKind::Invalid);
    assert!(schema(r#"{"type": "string", "const": 1}"#).kind == ErrorKind::Invalid);
}

#[test]
fn references_that_lead_nowhere_are_told() {
    assert_eq!(
        shown(r##"{"$ref": "#/$defs/a"}"##),
        "/$ref: `$ref`: there is nothing at \"/$defs/a\" in this schema"
    );
    assert!(shown(r##"{"$ref": "#a"}"##).contains("no anchor \"a\""));
    assert!(
        shown(r#"{"$ref": "https://example.com/x"}"#).contains("only references into this schema")
    );
    assert!(shown(r#"{"$ref": 1}"#).contains("`$ref` is a text"));
    for circle in [
        r##"{"$ref": "#"}"##,
        r##"{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}"##,
        r##"{"anyOf": [{"type": "null"}, {"$ref": "#"}]}"##,
    ] {
        assert!(
            shown(circle).contains("never ends"),
            "{circle}: {}",
            shown(circle)
        );
    }
}

#[test]
fn what_only_the_compiler_finds_has_a_pointer() {
    for (text, expected) in [
        (
            r#"{"type": "object", "properties": {"b": {"type": "null"},
                "a": {"allOf": [{"type": "string"}, {"type": "integer"}]}}, "required": ["a"]}"#,
            "/properties/a/allOf/0/type",
        ),
        (
            r#"{"type": "object", "required": ["a"], "additionalProperties": false}"#,
            "/required",
        ),
        (
            r#"{"type": "string", "pattern": "^a$", "minLength": 2}"#,
            "/pattern",
        ),
        (r#"{"anyOf": [false, false]}"#, "/anyOf/0"),
        (
            r##"{"$defs": {"one": {"type": "string", "const": 1}}, "$ref": "#/$defs/one"}"##,
            "/$defs/one/const",
        ),
        ("false", ""),
    ] {
        let error = schema(text);
        let place = Place::Pointer(expected.into());
        assert_eq!(error.place, Some(place), "{text}: {error}");
    }
}

#[test]
fn so_have_schemas_in_lark() {
    let wrong = r#"{"type": "object", "properties": {"a": {"type": "string", "const": 1}}, "required": ["a"]}"#;
    for (source, expected) in [
        (
            format!("start: \"x\" d\nd: %json {wrong}\n"),
            "/properties/a/",
        ),
        (
            format!("start: \"x\" %json {{\"const\": 1}} d\nd: %json {wrong}\n"),
            "line 2, column 10: /properties/a/",
        ),
    ] {
        let error_ = error(Grammar::from_ebnf(&source));
        assert!(
            error_.to_string().starts_with(expected),
            "{source}: {error_}"
        );
    }
}

#[test]
fn what_is_no_json_tells_its_place() {
    let error = schema("{\n  \"type\": }");
    assert_eq!(
        error.place,
        Some(Place::Position {
            line: 2,
            column: 11
        })
    );
    assert!(error
        .text
        .starts_with("the schema is not JSON: expected value"));
    assert!(schema("").text.contains("not JSON"));
}

#[test]
fn hostile_sources_fail_in_time() {
    let deep = |n: usize| format!("{}{{}}{}", "{\"items\": ".repeat(n), "}".repeat(n));
    let start = Instant::now();
    assert!(shown(&deep(1000)).contains("nested more than 128 deep"));
    assert_eq!(schema(&deep(1000)).kind, ErrorKind::TooLarge);
    assert_eq!(
        schema(&format!("{{\"title\": \"{}\"}}", "x".repeat(5 << 20))).kind,
        ErrorKind::TooLarge
    );
    let brackets = format!("start: {}\"a\"{}", "(".repeat(1000), ")".repeat(1000));
    let error_ = error(Grammar::from_ebnf(&brackets));
    assert_eq!(error_.kind, ErrorKind::TooLarge);
    assert_eq!(
        error_.place,
        Some(Place::Position {
            line: 1,
            column: 136
        })
    );
    let groups = format!("{}a{}", "(".repeat(1000), ")".repeat(1000));
    assert!(Grammar::from_regex(&groups).is_err());
    let huge = Grammar::from_regex("(a{1,999}){1,999}").and_then(|g| BYTES.compile(&g, 0));
    drop(huge); // success and failure are both fine, if they come in time
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

/// Each source compiles or gives an error within the time that compilation may take, and nothing breaks.
#[test]
fn hostile_schemas_cost_no_more_than_the_limits() {
    let chain = |n: usize, step: &str| {
        let definitions: Vec<String> = (0..n)
            .map(|i| {
                format!(
                    "\"d{i}\": {}",
                    step.replace('@', &format!("#/$defs/d{}", i + 1))
                )
            })
            .collect();
        let last = format!("\"d{n}\": {{\"type\": \"null\"}}");
        format!(
            "{{\"$ref\": \"#/$defs/d0\", \"$defs\": {{{}, {last}}}}}",
            definitions.join(", ")
        )
    };
    let plain = r#"{"$ref": "@"}"#;
    let nested = r#"{"type": "object", "properties": {"a": {"$ref": "@"}}}"#;
    let twice = r#"{"anyOf": [{"$ref": "@"}, {"items": {"$ref": "@"}}]}"#;
    let both = r#"{"allOf": [{"$ref": "@"}, {"$ref": "@"}]}"#;
    let options = vec![r##"{"$ref": "#"}"##; 200].join(", ");
    for (text, expected) in [
        (chain(30_000, plain), Some(ErrorKind::TooLarge)),
        (chain(30_000, nested), Some(ErrorKind::TooLarge)),
        (chain(1_900, plain), None),
        (chain(1_900, nested), None),
        (chain(200, twice), None),
        (chain(40, both), None),
        (format!("{{\"oneOf\": [{options}]}}"), None),
        (
            format!("{{\"type\": \"array\", \"items\": {{\"oneOf\": [{options}]}}}}"),
            None,
        ),
        (r#"{"type": "array", "minItems": 4294967295}"#.into(), None),
        (
            r#"{"type": "array", "items": {"type": "null"}, "minItems": 100000}"#.into(),
            None,
        ),
        (
            r#"{"type": "string", "minLength": 4294967295}"#.into(),
            None,
        ),
        (r#"{"type": "string", "minLength": 1000000}"#.into(), None),
        (
            r#"{"type": "string", "pattern": "^(a+)+$", "minLength": 1000}"#.into(),
            None,
        ),
        (
            r#"{"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"}"#.into(),
            None,
        ),
        (
            r#"{"type": "string", "pattern": "(a|b)*a(a|b){30}$"}"#.into(),
            None,
        ),
        (r#"{"multipleOf": 4294967291}"#.into(), None),
        (r#"{"minimum": 1e-300, "maximum": 1e-299}"#.into(), None),
    ] {
        let start = Instant::now();
        let made = Grammar::from_json_schema(&text).and_then(|grammar| BYTES.compile(&grammar, 0));
        let short: String = text.chars().take(90).collect();
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{short}: {:?}",
            start.elapsed()
        );
        if let Some(kind) = expected {
            assert_eq!(made.err().map(|error| error.kind), Some(kind), "{short}");
        }
    }
}

/// Each would take minutes or gigabytes to check.
#[test]
fn schemas_that_grow_as_they_are_checked_are_refused() {
    let nested = |n: usize, open: &str, close: &str| {
        let inner = r#"{"type": "integer"}"#;
        format!("{}{inner}{}", open.repeat(n), close.repeat(n))
    };
    let listed = |n: usize, one: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..n).map(one).collect();
        all.join(", ")
    };
    // Each pattern is compared with every other one.
    let patterns = listed(2_000, &|n| format!("\"^a{n}$\": {{}}"));
    let patterns = format!("{{\"patternProperties\": {{{patterns}}}}}");
    // Each reference leads to a schema that is most of the source.
    let chain = nested(110, r#"{"items": "#, "}");
    let overlapping = listed(100, &|n| {
        format!("{{\"$ref\": \"#/$defs/a{}\"}}", "/items".repeat(n))
    });
    let wide = listed(20_000, &|_| r#"{"type": "string"}"#.into());
    let overlapping = format!(
        "{{\"anyOf\": [{overlapping}], \"$defs\": {{\"a\": {}}}}}",
        chain.replace(
            r#"{"type": "integer"}"#,
            &format!("{{\"anyOf\": [{wide}]}}")
        )
    );
    // Each pointer is a megabyte long.
    let long = listed(10_000, &|n| format!("\"p{n}\": {{\"multipleOf\": 2}}"));
    let long = format!(
        "{{\"properties\": {{\"{}\": {{\"properties\": {{{long}}}}}}}}}",
        "x".repeat(1 << 20)
    );
    let negated = listed(400, &|_| r##"{"not": {"$ref": "#/$defs/a"}}"##.into());
    let negated = format!(
        "{{\"allOf\": [{negated}], \"$defs\": {{\"a\": {{\"required\": [{}]}}}}}}",
        listed(10_000, &|n| format!("\"p{n}\""))
    );
    for text in [patterns, overlapping, long, negated] {
        let short: String = text.chars().take(90).collect();
        let error = schema(&text);
        assert_eq!(error.kind, ErrorKind::TooSlow, "{short}: {error}");
    }
}

/// These are large, and cost no more than they are large.
#[test]
fn schemas_that_are_only_large_are_checked() {
    let names = |from: usize, n: usize| {
        let all: Vec<String> = (from..from + n).map(|n| format!("\"p{n}\"")).collect();
        all.join(", ")
    };
    let properties: Vec<String> = (0..20_000).map(|n| format!("\"p{n}\": {{}}")).collect();
    let required = format!(
        "{{\"properties\": {{{}}}, \"required\": [{}]}}",
        properties.join(", "),
        names(0, 20_000)
    );
    let constants = format!(
        "{{\"oneOf\": [{{\"enum\": [{}]}}, {{\"enum\": [{}]}}]}}",
        names(0, 20_000),
        names(20_000, 20_000)
    );
    for text in [required, constants] {
        let short: String = text.chars().take(90).collect();
        let made = Grammar::from_json_schema(&text);
        assert!(made.is_ok(), "{short}: {:?}", made.err());
    }
}

#[test]
fn lark_errors_tell_their_place() {
    let error_ = error(Grammar::from_ebnf("start: \"a\"\n  | missing"));
    assert!(error_.to_string().contains("missing"), "{error_}");
    let error_ = error(Grammar::from_ebnf("start: \"a\" )"));
    assert!(
        matches!(error_.place, Some(Place::Position { line: 1, .. })),
        "{error_:?}"
    );
    assert!(error(Grammar::from_ebnf("")).kind == ErrorKind::Invalid);
    assert!(error(Grammar::from_ebnf("start: <|nothing|>"))
        .to_string()
        .contains("nothing"));
}

#[test]
fn faults_of_lark_are_found_without_a_vocabulary() {
    let check = |source: &str| Grammar::from_ebnf(source).and_then(|made| made.check_rules(1));
    for (source, line) in [
        ("start: \"a\"\n  | missing", 1),
        ("start: (\"a\"", 1),
        ("start: a\na: b\nb: c", 3),
    ] {
        let error = check(source).expect_err(source);
        assert_eq!(error.kind, ErrorKind::Invalid, "{source}: {error}");
        assert!(
            matches!(error.place, Some(Place::Position { line: at, .. }) if at == line),
            "{source}: {error:?}"
        );
    }
    let wrong = r#"{"type": "object", "properties": {"a": {"type": "string", "const": 1}}, "required": ["a"]}"#;
    let error = check(&format!("start: %json {wrong}")).expect_err(wrong);
    assert!(error.to_string().starts_with("/properties/a/"), "{error}");
    // Only a vocabulary knows which special tokens there are.
    for source in [
        "start: \"a\" <|end|>",
        "start: <[7]>",
        "root ::= \"a\"",
        "start: /a+/",
    ] {
        assert!(check(source).is_ok(), "{source}: {:?}", check(source));
    }
}

#[test]
fn regex_errors_say_what_is_wrong() {
    for pattern in ["(", "[", "a{2,1}", "\\", "(?=a)b", "\\b", "(a)\\1"] {
        let error_ = Grammar::from_regex(pattern);
        assert!(error_.is_err(), "{pattern} is accepted");
        let error_ = error(error_);
        assert_eq!(error_.kind, ErrorKind::Invalid, "{pattern}: {error_}");
        assert!(error_.text.len() > 20, "{error_}");
    }
}

#[test]
fn regex_errors_tell_their_place() {
    for (pattern, line, column) in [
        ("(", 1, 1),
        ("^(", 1, 2),
        ("\\d/(", 1, 4),
        ("a\n(", 2, 1),
        ("x(?=a)", 1, 2),
        ("(a)\\1", 1, 4),
        ("ab\\", 1, 3),
        ("^a\n\\bword\\b", 2, 1),
        ("[.^]\\\\x\\B", 1, 8),
        ("a^b", 1, 2),
    ] {
        let place = error(Grammar::from_regex(pattern)).place;
        assert_eq!(place, Some(Place::Position { line, column }), "{pattern}");
    }
    assert_eq!(
        error(Grammar::from_regex("a\\b")).to_string(),
        "line 1, column 2: the regular expression is not accepted: `\\b` is not enforced; only ^ at the beginning and \
         $ at the end are"
    );
}

#[test]
fn a_grammar_that_matches_nothing_is_refused() {
    assert!(error(Grammar::from_ebnf("root ::= root")).kind == ErrorKind::Invalid);
    assert!(error(Grammar::from_ebnf("root ::= \"a\" root")).kind == ErrorKind::Invalid);
}
