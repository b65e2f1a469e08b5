//! Keywords whose values can be judged alone.
use super::{below, invalid, numbers, unsupported};
use crate::grammar::Error;
use serde_json::{json, Map, Value as Json};
use std::collections::HashSet;

const TYPES: [&str; 7] = [
    "null", "boolean", "integer", "number", "string", "array", "object",
];

pub fn refused(key: &str, here: &str) -> Error {
    let known = match key {
        "uniqueItems"
        | "contains"
        | "minContains"
        | "maxContains"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "$dynamicRef"
        | "$dynamicAnchor"
        | "$recursiveRef"
        | "$recursiveAnchor" => "is not enforced",
        "$id" | "id" => "is followed at the root only",
        "nullable" => "is not JSON Schema; write \"type\": [..., \"null\"]",
        _ => "is not known; names of your own begin with x-",
    };
    unsupported(here, format!("the keyword `{key}` {known}"))
}

pub fn checked_type(value: &Json, here: &str) -> Result<Json, Error> {
    let known = |name: &Json| name.as_str().is_some_and(|name| TYPES.contains(&name));
    let fits = match value {
        Json::Array(names) => !names.is_empty() && names.iter().all(known),
        name => known(name),
    };
    if !fits {
        return Err(invalid(
            here,
            format!(
                "`type` is one of {}, or a list of them, not {value}",
                TYPES.join(", ")
            ),
        ));
    }
    Ok(value.clone())
}

/// A count of characters, items or properties.
pub fn checked_count(key: &str, value: &Json, here: &str) -> Result<Json, Error> {
    let whole = |number: &f64| number.fract() == 0.0 && *number >= 0.0;
    let rounded = || value.as_f64().filter(whole).map(|number| number as u64);
    match value.as_u64().or_else(rounded) {
        Some(count) if count <= u64::from(u32::MAX) => Ok(json!(count)),
        _ => Err(invalid(
            here,
            format!(
                "`{key}` is a whole number from 0 to {}, not {value}",
                u32::MAX
            ),
        )),
    }
}

/// A bound of numbers.
pub fn checked_bound(key: &str, value: &Json, here: &str) -> Result<Json, Error> {
    if !value.is_number() {
        return Err(invalid(here, format!("`{key}` is a number, not {value}")));
    }
    numbers::check_exact(value, here)
        .map_err(|error| unsupported(here, format!("`{key}`: {}", error.text)))?;
    Ok(value.clone())
}

pub fn checked_names(key: &str, value: &Json, here: &str) -> Result<Json, Error> {
    let names = match value.as_array() {
        Some(names) if names.iter().all(Json::is_string) => names,
        _ => {
            return Err(invalid(
                here,
                format!("`{key}` is a list of property names"),
            ))
        }
    };
    let mut seen = HashSet::new();
    let mut texts = names.iter().filter_map(Json::as_str);
    match texts.find(|name| !seen.insert(*name)) {
        Some(name) => Err(invalid(here, format!("`{key}` has {name:?} twice"))),
        None => Ok(value.clone()),
    }
}

/// The keywords for items have different meanings in different drafts, which must not be mixed.
pub fn check_items(
    schema: &Map<String, Json>,
    old_items: bool,
    pointer: &str,
) -> Result<(), Error> {
    if old_items && schema.contains_key("prefixItems") {
        return Err(invalid(
            &below(pointer, "items"),
            "`items` is a list beside `prefixItems`: only one of them can be the first items",
        ));
    }
    if schema.contains_key("additionalItems") && !schema.contains_key("items") {
        return Err(unsupported(
            &below(pointer, "additionalItems"),
            "the keyword `additionalItems` means nothing without `items`; items after those of `prefixItems` are in `items`",
        ));
    }
    Ok(())
}

/// Bounds that no value can meet.
pub fn check_bounds(schema: &Map<String, Json>, pointer: &str) -> Result<(), Error> {
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    for (low, high, strict) in [
        ("minItems", "maxItems", false),
        ("minLength", "maxLength", false),
        ("minProperties", "maxProperties", false),
        ("minimum", "maximum", false),
        ("exclusiveMinimum", "maximum", true),
        ("minimum", "exclusiveMaximum", true),
        ("exclusiveMinimum", "exclusiveMaximum", true),
    ] {
        let (Some(least), Some(most)) = (number(low), number(high)) else {
            continue;
        };
        if least > most || strict && least == most {
            return Err(invalid(
                &below(pointer, low),
                format!("`{low}` {least} contradicts `{high}` {most}: no value meets both"),
            ));
        }
    }
    Ok(())
}

/// Numbers of properties are counted where their names are known to be different: those that are required, and one more.
pub fn check_counts(schema: &Map<String, Json>, pointer: &str) -> Result<(), Error> {
    let count = |key: &str| schema.get(key).and_then(Json::as_u64);
    let names = |key: &str| schema.get(key).and_then(Json::as_array);
    let required: HashSet<&str> = names("required")
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let optional = schema
        .get("properties")
        .and_then(Json::as_object)
        .is_some_and(|all| all.keys().any(|name| !required.contains(name.as_str())));
    let known = schema.get("additionalProperties") == Some(&json!(false))
        && !schema.contains_key("patternProperties");
    let more = |key: &str| count(key).map(|n| n.saturating_sub(required.len() as u64));
    let (least, most) = (more("minProperties").unwrap_or(0), more("maxProperties"));
    let at_most_one = most.is_none_or(|most| most == 1);
    if optional && least > 0 && (least > 1 || !known || !at_most_one) {
        return Err(unsupported(
            &below(pointer, "minProperties"),
            "`minProperties` is not enforced here; list the properties in `required`",
        ));
    }
    if optional && most.is_some() && (!known || !at_most_one) {
        return Err(unsupported(
            &below(pointer, "maxProperties"),
            "`maxProperties` is not enforced beside properties that are not required",
        ));
    }
    if !known && least > 1 {
        return Err(unsupported(
            &below(pointer, "minProperties"),
            "`minProperties` is not enforced here: the same name could be written twice",
        ));
    }
    Ok(())
}

/// Control characters that have no short escape.
pub fn has_control(value: &Json) -> bool {
    let in_text = |text: &str| {
        text.chars()
            .any(|c| c.is_ascii_control() && !"\u{8}\u{c}\n\r\t".contains(c))
    };
    match value {
        Json::String(text) => in_text(text),
        Json::Array(items) => items.iter().any(has_control),
        Json::Object(entries) => entries.iter().any(|(_, item)| has_control(item)),
        _ => false,
    }
}

/// A fragment of a URI as it is meant.
pub fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut i) = (Vec::with_capacity(bytes.len()), 0);
    while i < bytes.len() {
        let hex = text.get(i + 1..i + 3).filter(|_| bytes[i] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
