//! Conditions within conditions. Their oracle is the meaning of the keywords, computed here.
use super::*;
use serde_json::{json, Value as Json};
use std::time::{Duration, Instant};

/// Whether an object with these properties is valid; only `if`, `then`, `else`, `dependentSchemas`, `required`, and
/// `properties` of constants are known.
fn is_valid(schema: &Json, value: &Json) -> bool {
    let Some(entries) = schema.as_object() else {
        return schema == &json!(true);
    };
    entries.iter().all(|(key, said)| match key.as_str() {
        "type" | "additionalProperties" => true, // all documents of the tests are objects of known properties
        "const" => said == value,
        "properties" => {
            let all = said.as_object().unwrap().iter();
            all.into_iter()
                .all(|(name, one)| value.get(name).is_none_or(|found| is_valid(one, found)))
        }
        "enum" => said.as_array().unwrap().contains(value),
        "required" => {
            let names = said.as_array().unwrap().iter();
            names
                .map(|name| name.as_str().unwrap())
                .all(|name| value.get(name).is_some())
        }
        "if" => {
            let branch = if is_valid(said, value) {
                "then"
            } else {
                "else"
            };
            entries
                .get(branch)
                .is_none_or(|branch| is_valid(branch, value))
        }
        "then" | "else" => true,
        "dependentSchemas" => {
            let all = said.as_object().unwrap().iter();
            all.into_iter()
                .all(|(name, one)| value.get(name).is_none() || is_valid(one, value))
        }
        other => panic!("{other} is not known here"),
    })
}

/// All objects of up to `names.len()` properties with the values 0 and 1, in the order of the names.
fn documents(names: &[String]) -> Vec<Json> {
    let mut all = vec![json!({})];
    for name in names {
        let longer = all.iter().flat_map(|document| {
            [0, 1].map(|value| {
                let mut document = document.clone();
                document[name] = json!(value);
                document
            })
        });
        let longer: Vec<Json> = longer.collect();
        all.extend(longer);
    }
    all
}

fn check(schema: &Json, names: &[String]) {
    let grammar = Grammar::from_json_schema(&schema.to_string()).unwrap();
    let (mut valid, mut invalid) = (0, 0);
    for document in documents(names) {
        let is_valid = is_valid(schema, &document);
        let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
        let text = document.to_string();
        let takes = matcher.accept(&tokens(&text)).is_ok() && matcher.is_complete();
        assert_eq!(takes, is_valid, "{document} under {schema}");
        (valid, invalid) = (
            valid + usize::from(is_valid),
            invalid + usize::from(!is_valid),
        );
    }
    assert!(
        valid > 0 && invalid > 0,
        "{valid} valid, {invalid} invalid: {schema}"
    );
}

/// The properties that every schema of a test declares, so that nothing depends on their order.
fn whole(names: &[String], mut rules: Json) -> Json {
    let bit = json!({"enum": [0, 1]});
    let properties: serde_json::Map<String, Json> = names
        .iter()
        .map(|name| (name.clone(), bit.clone()))
        .collect();
    rules["type"] = json!("object");
    rules["properties"] = Json::Object(properties);
    rules["additionalProperties"] = json!(false);
    rules
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("p{n}")).collect()
}

fn is_one(name: &str) -> Json {
    json!({"properties": {name: {"const": 1}}, "required": [name]})
}

#[test]
fn branches_within_branches_mean_what_they_say() {
    let names = names(4);
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| names[i].as_str());
    let needs = |name: &str| json!({"required": [name]});
    for rules in [
        json!({"if": is_one(a), "then": {"if": is_one(b), "then": needs(c), "else": needs(d)}}),
        json!({"if": is_one(a), "else": {"if": is_one(b), "then": needs(c),
            "else": {"if": is_one(c), "then": needs(d)}}}),
        json!({"if": needs(a), "then": {"dependentSchemas": {b: {"if": is_one(c), "then": needs(d), "else": is_one(b)}}},
            "else": {"if": needs(d), "then": needs(c), "else": {"if": needs(c), "then": is_one(b)}}}),
        json!({"dependentSchemas": {a: {"dependentSchemas": {b: {"dependentSchemas": {c: is_one(d)}}}}}}),
        // A condition that is a condition.
        json!({"if": {"if": is_one(a), "then": is_one(b), "else": is_one(c)}, "then": needs(d), "else": needs(a)}),
    ] {
        check(&whole(&names, rules), &names);
    }
}

#[test]
fn names_of_properties_may_look_like_references() {
    let names: Vec<String> = ["a%2Fb", "c/d", "e~1f"].map(String::from).to_vec();
    let [a, b, c] = [0, 1, 2].map(|i| names[i].as_str());
    let rules = json!({"dependentSchemas": {a: {"dependentSchemas": {b: {"dependentSchemas": {c: is_one(a)}}}}}});
    check(&whole(&names, rules), &names);
}

/// Each level took twice as long as the one around it.
#[test]
fn the_cost_grows_with_the_number_of_levels() {
    let names = names(24);
    let start = Instant::now();
    for key in ["then", "else"] {
        let mut rules = json!({"required": ["p23"]});
        for name in names.iter().rev() {
            rules = json!({"if": is_one(name), key: rules});
        }
        let grammar = Grammar::from_json_schema(&whole(&names, rules).to_string()).unwrap();
        BYTES.compile(&grammar, 0).unwrap();
    }
    let mut rules = json!({"required": ["p23"]});
    for name in names.iter().rev() {
        rules = json!({"dependentSchemas": {name: rules}});
    }
    let grammar = Grammar::from_json_schema(&whole(&names, rules).to_string()).unwrap();
    BYTES.compile(&grammar, 0).unwrap();
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn a_hundred_levels_are_no_error() {
    for (count, open, close) in [
        (100, r#"{"if": {"minimum": 1}, "then": "#, "}"),
        (100, r#"{"if": {"maximum": 1}, "else": "#, "}"),
        (60, r#"{"dependentSchemas": {"a": "#, "}}"),
    ] {
        let inner = r#"{"type": "integer"}"#;
        let text = format!("{}{inner}{}", open.repeat(count), close.repeat(count));
        let grammar = Grammar::from_json_schema(&text).unwrap();
        let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
        matcher.accept(&tokens("7")).unwrap();
    }
}

/// A negated schema is copied, so it has limits.
#[test]
fn conditions_of_conditions_are_refused_where_there_are_many() {
    for (count, open, close) in [
        (100, r#"{"then": {"minimum": 1}, "if": "#, "}"),
        (50, r#"{"not": {"then": {"minimum": 1}, "if": "#, "}}"),
    ] {
        let start = Instant::now();
        let text = format!(
            "{}{{\"maximum\": 9}}{}",
            open.repeat(count),
            close.repeat(count)
        );
        let error = Grammar::from_json_schema(&text).unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::Unsupported | ErrorKind::TooSlow),
            "{error}"
        );
        assert!(
            error.place.is_some() || error.kind == ErrorKind::TooSlow,
            "{error}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{:?}",
            start.elapsed()
        );
    }
}
