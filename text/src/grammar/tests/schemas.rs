//! Schemas, with documents that they accept, and documents one edit away that they reject.
//!
//! Properties must come in the order of the schema; a model needs no other order.
use super::*;
use std::time::{Duration, Instant};

/// The tables, by family. `schemas/README.md` tells their form.
const TABLES: [(&str, &str); 13] = [
    ("types", include_str!("schemas/types.json")),
    ("enum-const", include_str!("schemas/enum-const.json")),
    ("strings", include_str!("schemas/strings.json")),
    ("formats", include_str!("schemas/formats.json")),
    ("numbers", include_str!("schemas/numbers.json")),
    ("arrays", include_str!("schemas/arrays.json")),
    ("objects", include_str!("schemas/objects.json")),
    ("composition", include_str!("schemas/composition.json")),
    ("conditions", include_str!("schemas/conditions.json")),
    ("references", include_str!("schemas/references.json")),
    ("annotations", include_str!("schemas/annotations.json")),
    ("real", include_str!("schemas/real.json")),
    ("bad", include_str!("schemas/bad.json")),
];

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    schema: serde_json::Value,
    #[serde(default)]
    accept: Vec<String>,
    #[serde(default)]
    reject: Vec<String>,
    /// Documents that the schema allows and the masks do not: another order, another spelling of the same value.
    #[serde(default)]
    unwritten: Vec<String>,
    error: Option<String>,
    kind: Option<String>,
    pointer: Option<String>,
}

fn rows() -> Vec<(&'static str, Row)> {
    let mut rows = Vec::new();
    for (family, text) in TABLES {
        let of_family: Vec<Row> =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{family}: {e}"));
        rows.extend(of_family.into_iter().map(|row| (family, row)));
    }
    rows
}

/// The schemas of the tables that are not refused.
pub(super) fn accepted() -> Vec<Grammar> {
    let rows = rows().into_iter().filter(|(_, row)| row.error.is_none());
    rows.map(|(_, row)| Grammar::from_json_schema(&row.schema.to_string()).unwrap())
        .collect()
}

/// Describes what is wrong with the row of a schema that is refused.
fn fault_of_error(row: &Row, expected: &str) -> Option<String> {
    let started = Instant::now();
    let made = Grammar::from_json_schema(&row.schema.to_string())
        .and_then(|grammar| BYTES.compile(&grammar, 0));
    let Err(error) = made else {
        return Some("it compiles".into());
    };
    let kind = format!("{:?}", error.kind).to_lowercase();
    let pointer = match &error.place {
        Some(Place::Pointer(pointer)) => Some(pointer),
        _ => None,
    };
    let fits = error.text.contains(expected)
        && row.kind.as_ref().is_none_or(|expected| *expected == kind)
        && (row.pointer.is_none() || row.pointer.as_ref() == pointer)
        && started.elapsed() < Duration::from_secs(5);
    (!fits).then(|| format!("{kind} error: {error}"))
}

/// Runs every document of the table through `passes` and tells every one that went wrong.
fn faults(passes: impl Fn(&Grammar, &str) -> Result<bool, Error>) -> Vec<String> {
    let mut faults = Vec::new();
    for (family, row) in rows() {
        let schema = row.schema.to_string();
        let mut fault = |text: String| faults.push(format!("{family}: {schema}\n    {text}"));
        if let Some(expected) = &row.error {
            fault_of_error(&row, expected).into_iter().for_each(fault);
            continue;
        }
        let grammar = match Grammar::from_json_schema(&schema) {
            Ok(grammar) => grammar,
            Err(error) => {
                fault(format!("error: {error}"));
                continue;
            }
        };
        let documents = (row.accept.iter().map(|text| (text, true)))
            .chain(row.reject.iter().map(|text| (text, false)))
            .chain(row.unwritten.iter().map(|text| (text, false)));
        for (text, expected) in documents {
            match passes(&grammar, text) {
                Ok(passed) if passed == expected => {}
                Ok(true) => fault(format!("accepted: {text}")),
                Ok(false) => fault(format!("rejected: {text}")),
                Err(error) => fault(format!("{error}: {text}")),
            }
        }
    }
    faults
}

/// Whether one character was replaced, added or taken out.
fn is_one_edit(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let behind = |text: &[char], count: usize| text.get(same + count..).map(<[char]>::to_vec);
    let (replaced, added, removed) = (
        behind(&a, 1).is_some() && behind(&a, 1) == behind(&b, 1),
        behind(&b, 1).is_some() && behind(&a, 0) == behind(&b, 1),
        behind(&a, 1).is_some() && behind(&a, 1) == behind(&b, 0),
    );
    replaced || added || removed
}

#[test]
fn every_schema_rejects_a_document_one_edit_from_an_accepted_one() {
    assert!(is_one_edit("1", "2") && is_one_edit("1", "12") && is_one_edit("12", "1"));
    assert!(!is_one_edit("1", "1") && !is_one_edit("1", "23") && !is_one_edit("12", "21"));
    for (family, row) in rows().iter().filter(|(_, row)| !row.accept.is_empty()) {
        let is_near = |text: &String| row.accept.iter().any(|other| is_one_edit(other, text));
        let schema = &row.schema;
        assert!(row.reject.iter().any(is_near), "{family}: {schema}");
    }
}

/// The keywords of draft 2020-12, by its vocabularies.
const KEYWORDS: [&str; 58] = [
    // core
    "$schema",
    "$id",
    "$ref",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$vocabulary",
    "$comment",
    "$defs",
    // applicator
    "prefixItems",
    "items",
    "contains",
    "additionalProperties",
    "properties",
    "patternProperties",
    "dependentSchemas",
    "propertyNames",
    "if",
    "then",
    "else",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    // unevaluated
    "unevaluatedItems",
    "unevaluatedProperties",
    // validation
    "type",
    "const",
    "enum",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    // annotation, format and content
    "title",
    "description",
    "default",
    "deprecated",
    "readOnly",
    "writeOnly",
    "examples",
    "format",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    // of earlier drafts
    "definitions",
];

fn uses(schema: &serde_json::Value, keyword: &str) -> bool {
    match schema {
        serde_json::Value::Object(entries) => {
            entries.contains_key(keyword) || entries.values().any(|value| uses(value, keyword))
        }
        serde_json::Value::Array(items) => items.iter().any(|item| uses(item, keyword)),
        _ => false,
    }
}

#[test]
fn every_keyword_is_enforced_or_refused() {
    let rows = rows();
    for keyword in KEYWORDS {
        let accepts = |row: &Row| !row.accept.is_empty() && uses(&row.schema, keyword);
        let refuses = |row: &Row| {
            let named = row
                .error
                .as_ref()
                .is_some_and(|error| error.contains(&format!("`{keyword}`")));
            named && uses(&row.schema, keyword)
        };
        assert!(
            rows.iter().any(|(_, row)| accepts(row) || refuses(row)),
            "{keyword} has no row"
        );
    }
}

#[test]
fn documents_pass_or_not() {
    assert!(rows().len() >= 700);
    let faults = faults(passes);
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), faults.len());
}

#[test]
fn documents_pass_or_not_on_a_real_vocabulary() {
    let Some((tokenizer, vocabulary)) = model::vocabulary() else {
        return; // the model is not there; `make setup` brings it
    };
    let stop = tokenizer.token_to_id("<|im_end|>").unwrap();
    let faults = faults(|grammar, text| {
        let mut matcher = vocabulary.matcher(grammar, 0)?;
        for token in tokenizer.encode_plain(text).unwrap() {
            if !matcher.mask()?.allows(token) {
                return Ok(false);
            }
            matcher.accept(&[token])?;
        }
        Ok(matcher.mask()?.allows(stop))
    });
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), faults.len());
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
    let mut matcher = BYTES.matcher(&grammar.unwrap(), 0).unwrap();
    matcher.accept(&tokens("{}")).unwrap();
    assert!(matcher.is_terminated());
    assert_eq!(matcher.mask().unwrap().runs(), [END, 1]);
    assert!(matcher.accept(&tokens(" ")).is_err());
}

/// Rows that the script which checks the tables cannot judge: Python divides in floating point, and its expressions have
/// another `\s` and other names of groups.
#[test]
fn decimals_and_expressions_are_exact() {
    for (schema, accepted, rejected) in [
        (
            r#"{"const": 0.3, "multipleOf": 0.1}"#,
            vec!["0.3"],
            vec!["0.2", "0.1"],
        ),
        (
            r#"{"enum": [0.7, 0.75, "a"], "multipleOf": 0.1}"#,
            vec!["0.7", "\"a\""],
            vec!["0.75"],
        ),
        (
            r#"{"type": "string", "pattern": "^\\s$"}"#,
            vec!["\" \"", "\"\u{a0}\"", "\"\u{feff}\"", "\"\\n\""],
            vec!["\"\u{85}\"", "\"a\""],
        ),
        (
            r#"{"type": "string", "pattern": "^[\\S-]$"}"#,
            vec!["\"\u{85}\"", "\"a\"", "\"-\""],
            vec!["\"\u{feff}\"", "\" \""],
        ),
        (
            r#"{"type": "string", "pattern": "^(?<stop>ab)c$"}"#,
            vec!["\"abc\""],
            vec!["\"ab\"", "\"c\""],
        ),
        (
            r#"{"type": "number", "minimum": 0.25, "maximum": 0.55, "multipleOf": 0.1}"#,
            vec!["0.3", "0.4", "0.5"],
            vec!["0.2", "0.6", "0.35"],
        ),
        (
            r#"{"type": "number", "minimum": 0.3, "maximum": 0.3, "multipleOf": 0.1}"#,
            vec!["0.3"],
            vec!["0.2", "0.4"],
        ),
        (
            r#"{"type": "string", "pattern": "^\\ud83c\\udf5e{2}$"}"#,
            vec!["\"🍞🍞\""],
            vec!["\"🍞\""],
        ),
        (
            r#"{"type": "string", "pattern": "^\\cJ\\0[\\b]$"}"#,
            vec!["\"\\n\\u0000\\b\""],
            vec!["\"\\n\\u0000\""],
        ),
        (
            r#"{"type": "string", "pattern": "^\\P{P}+$"}"#,
            vec!["\"a é\""],
            vec!["\"a\\\"\"", "\"\\\\\"", "\"a!\""],
        ),
    ] {
        let grammar = Grammar::from_json_schema(schema).unwrap();
        check(schema, &grammar, &accepted, &rejected);
    }
    let grammar = Grammar::from_regex("(?P<stop>ab)c").unwrap();
    check("a group", &grammar, &["abc"], &["ab", "c"]);
}

/// What a mask allows leads to a document. Where a pattern matched no further name, a comma could be written, and then
/// nothing.
#[test]
fn a_comma_is_written_only_before_another_name() {
    for schema in [
        r#"{"type": "object", "patternProperties": {"^ab$": true}, "required": ["ab"], "additionalProperties": false}"#,
        r#"{"type": "object", "patternProperties": {"^a$": true, "^b$": {}}, "properties": {"a": {}, "b": {"type": "null"}},
            "additionalProperties": false}"#,
    ] {
        let grammar = Grammar::from_json_schema(schema).unwrap();
        let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
        let text = match schema.contains("required") {
            true => "{\"ab\":null",
            false => "{\"a\":null,\"b\":null",
        };
        matcher.accept(&tokens(text)).unwrap();
        let mask = matcher.mask().unwrap();
        assert!(
            mask.allows(u32::from(b'}')) && !mask.allows(u32::from(b',')),
            "{schema}"
        );
    }
}
