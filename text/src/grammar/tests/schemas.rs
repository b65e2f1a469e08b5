//! Schemas, with documents that they accept, and documents one edit away that they reject.
//!
//! Properties come in the order of the schema; a model has no use for another one.
use super::*;

type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // types
    (r#"{"type": "null"}"#, &["null"], &["nul", "nulll", "true", "0", "\"null\"", ""]),
    (r#"{"type": "boolean"}"#, &["true", "false"], &["tru", "truee", "True", "0", "null"]),
    (r#"{"type": "integer"}"#, &["0", "-1", "12", "1234567890"], &["1.5", "01", "-", "+1", "1e3", "\"1\"", "--1"]),
    (r#"{"type": "number"}"#, &["0", "-1.5", "1e3", "1.5E-7", "0.0"], &["1.", ".5", "01", "-", "1e", "1e+", "NaN", "Infinity"]),
    (r#"{"type": "string"}"#, &["\"\"", "\"a\"", "\"é€🍞\"", "\"a\\n\\\"b\"", "\"\\\\\""], &["\"", "a", "\"a", "\"a\"b", "\"a\nb\"", "\"\\x\"", "'a'"]),
    (r#"{"type": "array"}"#, &["[]", "[1]", "[1, \"a\", null]", "[[], {}]"], &["[", "[1", "[1,]", "[,1]", "[1 2]", "[]]"]),
    (r#"{"type": "object"}"#, &["{}", "{\"a\": 1}", "{\"a\": {\"b\": []}}"], &["{", "{\"a\"}", "{\"a\": 1,}", "{a: 1}", "{\"a\" 1}", "{}}"]),
    (r#"{"type": ["string", "null"]}"#, &["\"a\"", "null"], &["1", "\"a", "nul"]),
    (r#"{"type": ["integer", "boolean"]}"#, &["1", "true"], &["1.5", "\"1\"", "null"]),
    (r#"true"#, &["1", "null", "{}", "\"a\""], &["", "tru", "{"]),
    (r#"{}"#, &["1", "null", "[{}]", "\"a\""], &["", "nul", "[{]"]),
    // any JSON by annotations only
    (r#"{"title": "t", "description": "d", "default": 1, "examples": [1], "deprecated": true, "x-mine": 1}"#, &["1", "[]"], &["x"]),
    // const and enum
    (r#"{"const": "a"}"#, &["\"a\""], &["\"b\"", "\"\"", "\"aa\"", "a", "1"]),
    (r#"{"const": 5}"#, &["5"], &["6", "55", "5.5", "\"5\""]),
    (r#"{"const": null}"#, &["null"], &["0", "nul"]),
    (r#"{"const": true}"#, &["true"], &["false", "tru"]),
    (r#"{"const": [1, "a"]}"#, &["[1,\"a\"]", "[1, \"a\"]"], &["[1]", "[1,\"b\"]", "[\"a\",1]", "[1,\"a\",2]"]),
    (r#"{"const": {"a": 1}}"#, &["{\"a\":1}"], &["{}", "{\"a\":2}", "{\"b\":1}", "{\"a\":1,\"b\":1}"]),
    (r#"{"enum": ["red", "green"]}"#, &["\"red\"", "\"green\""], &["\"re\"", "\"redd\"", "\"blue\"", "red"]),
    (r#"{"enum": [1, "1", null, false]}"#, &["1", "\"1\"", "null", "false"], &["2", "\"2\"", "true", "11"]),
    (r#"{"type": "string", "enum": ["a", 1]}"#, &["\"a\""], &["1", "\"b\""]),
    // numbers
    (r#"{"type": "integer", "minimum": 3}"#, &["3", "4", "10", "300"], &["2", "-3", "0", "3.5"]),
    (r#"{"type": "integer", "maximum": 3}"#, &["3", "0", "-100"], &["4", "30"]),
    (r#"{"type": "integer", "minimum": -5, "maximum": 120}"#, &["-5", "0", "120", "99"], &["-6", "121", "1200"]),
    (r#"{"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}"#, &["1", "9"], &["0", "10", "-1"]),
    (r#"{"type": "number", "minimum": 1.5, "maximum": 2.5}"#, &["1.5", "2", "2.25", "2.5"], &["1.4", "2.6", "3", "1"]),
    (r#"{"type": "number", "exclusiveMinimum": 0}"#, &["0.1", "1", "20.5"], &["0", "-1", "-0.1"]),
    (r#"{"type": "integer", "multipleOf": 5}"#, &["0", "5", "10", "125"], &["1", "6", "12"]),
    (r#"{"minimum": 3}"#, &["3", "\"a\"", "null", "[]"], &["2"]),
    // strings
    (r#"{"type": "string", "minLength": 2}"#, &["\"ab\"", "\"abc\"", "\"éé\""], &["\"\"", "\"a\"", "\"é\""]),
    (r#"{"type": "string", "maxLength": 2}"#, &["\"\"", "\"ab\"", "\"éé\""], &["\"abc\"", "\"ééé\""]),
    (r#"{"type": "string", "minLength": 1, "maxLength": 3}"#, &["\"a\"", "\"abc\"", "\"\\n\""], &["\"\"", "\"abcd\""]),
    (r#"{"type": "string", "pattern": "^[a-z]+$"}"#, &["\"a\"", "\"abc\""], &["\"\"", "\"A\"", "\"a1\"", "\" a\""]),
    (r#"{"type": "string", "pattern": "b"}"#, &["\"b\"", "\"abc\""], &["\"\"", "\"ac\""]),
    (r#"{"type": "string", "pattern": "^\\d{3}-\\d{4}$"}"#, &["\"555-1234\""], &["\"555-123\"", "\"5551234\"", "\"555-12345\""]),
    (r#"{"type": "string", "pattern": "^(a+)+$"}"#, &["\"a\"", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""], &["\"\"", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaab\""]),
    (r#"{"type": "string", "format": "date"}"#, &["\"2024-02-29\"", "\"1999-12-31\""], &["\"2024-13-01\"", "\"2024-1-01\"", "\"2024-04-31\"", "\"20240101\""]),
    (r#"{"type": "string", "format": "time"}"#, &["\"12:30:00Z\"", "\"23:59:59+01:00\""], &["\"24:00:00Z\"", "\"12:30:00\"", "\"12:60:00Z\""]),
    (r#"{"type": "string", "format": "date-time"}"#, &["\"2024-02-29T12:30:00Z\""], &["\"2024-02-29 12:30:00Z\"", "\"2024-02-29\"", "\"2024-02-29T12:30Z\""]),
    (r#"{"type": "string", "format": "uuid"}"#, &["\"123e4567-e89b-12d3-a456-426614174000\""], &["\"123e4567-e89b-12d3-a456-42661417400\"", "\"123e4567e89b12d3a456426614174000\""]),
    (r#"{"type": "string", "format": "ipv4"}"#, &["\"127.0.0.1\"", "\"255.255.255.255\""], &["\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""]),
    (r#"{"type": "string", "format": "email"}"#, &["\"a@b.c\"", "\"x.y@example.com\""], &["\"a\"", "\"a@\"", "\"@b\"", "\"a b@c\""]),
    (r#"{"type": "string", "format": "hostname"}"#, &["\"example.com\"", "\"a\""], &["\"-a\"", "\"a..b\"", "\"a_b\""]),
    (r#"{"type": "string", "format": "duration"}"#, &["\"P1D\"", "\"PT5M\""], &["\"1D\"", "\"P\"", "\"P1X\""]),
    // arrays
    (r#"{"type": "array", "items": {"type": "integer"}}"#, &["[]", "[1]", "[1,2]", "[1 , 2]"], &["[1.5]", "[\"1\"]", "[1,]", "[1,null]"]),
    (r#"{"type": "array", "items": {"type": "integer"}, "minItems": 2}"#, &["[1,2]", "[1,2,3]"], &["[]", "[1]"]),
    (r#"{"type": "array", "items": {"type": "integer"}, "maxItems": 2}"#, &["[]", "[1,2]"], &["[1,2,3]"]),
    (r#"{"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 1}"#, &["[true]"], &["[]", "[true,false]"]),
    (r#"{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}"#, &["[]", "[1]", "[1,\"a\"]"], &["[\"a\"]", "[1,2]", "[1,\"a\",3]"]),
    (r#"{"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}}"#, &["[1]", "[1,\"a\",\"b\"]"], &["[\"a\"]", "[1,2]"]),
    (r#"{"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}}"#, &["[1]", "[1,\"a\"]"], &["[\"a\"]", "[1,2]"]),
    (r#"{"type": "array", "items": {"type": "array", "items": {"type": "null"}}}"#, &["[[]]", "[[null],[null,null]]"], &["[null]", "[[1]]"]),
    (r#"{"type": "array", "uniqueItems": false, "items": {"type": "integer"}}"#, &["[1,1]"], &["[1,\"1\"]"]),
    (r#"{"items": {"type": "integer"}}"#, &["[1]", "\"a\"", "1"], &["[\"a\"]"]),
    // objects
    (r#"{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}"#, &["{\"a\":1}", "{ \"a\" : 1 }"], &["{}", "{\"a\":\"1\"}", "{\"b\":1}", "{\"a\":1,\"b\":2}"]),
    (r#"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "additionalProperties": false}"#, &["{}", "{\"a\":1}", "{\"b\":\"x\"}", "{\"a\":1,\"b\":\"x\"}"], &["{\"a\":\"x\"}", "{\"c\":1}", "{\"a\":1,}"]),
    (r#"{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["b"], "additionalProperties": false}"#, &["{\"b\":\"x\"}", "{\"a\":1,\"b\":\"x\"}"], &["{}", "{\"a\":1}"]),
    (r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#, &["{}", "{\"a\":1}", "{\"a\":1,\"z\":\"x\"}", "{\"z\":null}"], &["{\"a\":\"1\"}", "{\"a\":null}"]),
    (r#"{"type": "object", "additionalProperties": {"type": "integer"}}"#, &["{}", "{\"x\":1,\"y\":2}"], &["{\"x\":\"1\"}", "{\"x\":1,\"y\":null}"]),
    (r#"{"type": "object", "patternProperties": {"^i_": {"type": "integer"}}, "additionalProperties": false}"#, &["{}", "{\"i_a\":1}"], &["{\"i_a\":\"1\"}", "{\"a\":1}"]),
    (r#"{"type": "object", "required": ["k"]}"#, &["{\"k\":1}", "{\"k\":null}"], &["{}", "{\"j\":1}"]),
    (r#"{"type": "object", "properties": {"a": true, "b": false}}"#, &["{}", "{\"a\":1}"], &["{\"b\":1}", "{\"a\":1,\"b\":2}"]),
    (r#"{"type": "object", "properties": {"o": {"type": "object", "properties": {"n": {"type": "null"}}, "required": ["n"], "additionalProperties": false}}, "required": ["o"], "additionalProperties": false}"#, &["{\"o\":{\"n\":null}}"], &["{\"o\":{}}", "{\"o\":{\"n\":1}}", "{\"o\":null}"]),
    (r#"{"properties": {"a\"b": {"const": 1}}, "required": ["a\"b"], "additionalProperties": false, "type": "object"}"#, &["{\"a\\\"b\":1}"], &["{\"ab\":1}", "{\"a\\\"b\":2}"]),
    // combinations
    (r#"{"anyOf": [{"type": "integer"}, {"type": "boolean"}]}"#, &["1", "true"], &["1.5", "null"]),
    (r#"{"oneOf": [{"type": "integer"}, {"type": "string"}]}"#, &["1", "\"a\""], &["1.5", "true"]),
    (r#"{"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]}, {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]}"#, &["{\"k\":\"a\"}", "{\"k\":\"b\"}"], &["{\"k\":\"c\"}", "{}"]),
    (r#"{"allOf": [{"type": "integer"}, {"minimum": 3}, {"maximum": 5}]}"#, &["3", "5"], &["2", "6", "\"3\""]),
    (r#"{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}"#, &["{\"a\":1,\"b\":\"x\"}"], &["{\"a\":1}", "{\"b\":\"x\"}", "{\"a\":1,\"b\":2}"]),
    (r#"{"type": "string", "anyOf": [{"minLength": 3}, {"const": "a"}]}"#, &["\"abc\"", "\"a\""], &["\"b\"", "\"ab\"", "3"]),
    // references
    (r##"{"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}"##, &["1"], &["\"1\"", "1.5"]),
    (r##"{"type": "array", "items": {"$ref": "#/definitions/n"}, "definitions": {"n": {"type": "null"}}}"##, &["[null]"], &["[1]"]),
    (r##"{"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}, "required": ["v"], "additionalProperties": false}"##, &["{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}"], &["{\"v\":1,\"next\":{}}", "{\"v\":1,\"next\":1}"]),
    (r##"{"$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}"##, &["[]", "[[],[[]]]"], &["[1]", "[[}"]),
    (r##"{"$defs": {"a/b": {"const": 1}, "c d": {"const": 2}, "e~f": {"const": 3}}, "type": "array", "prefixItems": [{"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/c%20d"}, {"$ref": "#/$defs/e~0f"}], "items": false}"##, &["[1,2,3]"], &["[2]", "[1,3]", "[1,2,1]"]),
    (r##"{"$defs": {"x": {"$anchor": "here", "type": "boolean"}}, "$ref": "#here"}"##, &["true"], &["1"]),
    (r##"{"$id": "https://example.com/s", "type": "array", "items": {"$ref": "https://example.com/s#/$defs/n"}, "$defs": {"n": {"type": "null"}}}"##, &["[null]"], &["[1]"]),
    (r##"{"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}, "type": "object", "additionalProperties": false}"##, &["{\"a\":1,\"b\":2}"], &["{\"b\":\"2\"}"]),
    (r##"{"$ref": "#/$defs/n", "maximum": 5, "$defs": {"n": {"type": "integer"}}}"##, &["5"], &["6", "\"5\""]),
];

#[test]
fn documents_pass_or_not() {
    assert!(TABLE.len() >= 60);
    for (schema, accepted, rejected) in TABLE {
        let grammar = Grammar::from_json_schema(schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
        check(schema, &grammar, accepted, rejected);
    }
}

#[test]
fn any_json_is_json() {
    check(
        "json",
        &Grammar::json(),
        &[
            "{}",
            "[]",
            "1",
            "\"a\"",
            "null",
            "{\"a\": [1, {\"b\": null}]}",
        ],
        &["", "{", "{\"a\"}", "[1,]", "nul", "{} {}"],
    );
}

#[test]
fn a_document_ends_where_it_is_complete() {
    let grammar = Grammar::from_json_schema(r#"{"type": "object", "additionalProperties": false}"#);
    let mut matcher = BYTES.matcher(&grammar.unwrap()).unwrap();
    matcher.accept(&tokens("{}")).unwrap();
    assert!(matcher.is_terminated());
    assert_eq!(matcher.mask().unwrap().runs(), [END, 1]);
    assert!(matcher.accept(&tokens(" ")).is_err());
}
