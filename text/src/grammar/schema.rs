//! JSON Schema: everything that is not enforced is refused, by its name and its JSON pointer.
//!
//! The crate ignores keywords that it does not know, and follows only simple references. So the schema is walked here
//! first: keywords and their values are checked, and every schema that a `$ref` leads to gets a simple name under `$defs`.
use super::{Error, ErrorKind, Place};
use llguidance::derivre::RegexBuilder;
use llguidance::regex_to_lark;
use serde_json::{json, Map, Value as Json};
use std::collections::{HashMap, HashSet, VecDeque};

/// Keywords that say nothing about which documents are valid.
const ANNOTATIONS: [&str; 15] = [
    "$schema",
    "$comment",
    "$anchor",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentMediaType",
    "contentEncoding",
    "contentSchema",
    "discriminator",
    "$vocabulary",
];

const TYPES: [&str; 7] = [
    "null", "boolean", "integer", "number", "string", "array", "object",
];

const FORMATS: [&str; 10] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
];

/// The schema as the crate is given it.
pub fn checked(schema: &Json) -> Result<Json, Error> {
    let mut walk = Walk {
        root: schema,
        names: HashMap::new(),
        waiting: VecDeque::new(),
        anchors: HashMap::new(),
        steps: HashMap::new(),
    };
    walk.find_anchors(schema, "");
    let mut made = walk.schema(schema, "", "")?;
    let mut definitions = Map::new();
    while let Some(pointer) = walk.waiting.pop_front() {
        let name = walk.names[&pointer].clone();
        let target = walk.root.pointer(&pointer).expect("it was looked up");
        let definition = walk.schema(target, &pointer, &pointer)?;
        definitions.insert(name, definition);
    }
    walk.check_circles()?;
    if let (Json::Object(made), false) = (&mut made, definitions.is_empty()) {
        made.insert("$defs".into(), Json::Object(definitions));
    }
    Ok(with_options(made))
}

/// Between the parts of a document there may be one blank, or the end of a line and the blanks that indent the next one. A
/// model that could write blanks without end would never finish the document.
const WHITESPACE: &str = "[ \\t]|\\r?\\n[ \\t]{0,32}";

pub fn with_options(schema: Json) -> Json {
    match schema {
        Json::Object(mut entries) => {
            entries.insert(
                "x-guidance".into(),
                json!({"whitespace_pattern": WHITESPACE}),
            );
            Json::Object(entries)
        }
        other => other,
    }
}

/// Whether a regular expression can be followed.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    let backslashes = pattern.len() - pattern.trim_end_matches('\\').len();
    if backslashes % 2 == 1 {
        return Err("it ends with a backslash".into());
    }
    RegexBuilder::new()
        .mk_regex_for_serach(&regex_to_lark(pattern, "dw"))
        .map(|_| ())
        .map_err(|error| {
            let text = error.to_string();
            let last = text.lines().rfind(|line| !line.trim().is_empty());
            last.unwrap_or_default()
                .trim()
                .trim_start_matches("error: ")
                .to_string()
        })
}

fn invalid(pointer: &str, text: impl Into<String>) -> Error {
    Error::invalid(text).at(Place::Pointer(pointer.into()))
}

fn unsupported(pointer: &str, text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, text).at(Place::Pointer(pointer.into()))
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

struct Walk<'a> {
    root: &'a Json,
    /// Names of the schemas that references lead to, by pointer.
    names: HashMap<String, String>,
    waiting: VecDeque<String>,
    /// Pointers by `$anchor`.
    anchors: HashMap<String, String>,
    /// From a definition to the definitions that apply to the same value: a circle of them never ends.
    steps: HashMap<String, Vec<(String, String)>>,
}

impl<'a> Walk<'a> {
    fn find_anchors(&mut self, json: &Json, pointer: &str) {
        match json {
            Json::Object(entries) => {
                if let Some(Json::String(anchor)) = entries.get("$anchor") {
                    self.anchors.insert(anchor.clone(), pointer.into());
                }
                for (key, value) in entries {
                    self.find_anchors(value, &below(pointer, key));
                }
            }
            Json::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.find_anchors(item, &format!("{pointer}/{i}"));
                }
            }
            _ => {}
        }
    }

    /// `owner` is the definition that this schema belongs to as long as it applies to the same value; empty elsewhere
    /// is the root's.
    fn schema(&mut self, schema: &'a Json, pointer: &str, owner: &str) -> Result<Json, Error> {
        let entries = match schema {
            Json::Bool(_) => return Ok(schema.clone()),
            Json::Object(entries) => entries,
            _ => {
                return Err(invalid(
                    pointer,
                    "a schema is an object, true or false".to_string(),
                ))
            }
        };
        let mut made = Map::new();
        // Up to draft 2019-09, a list of `items` was what `prefixItems` is now.
        let old_items = entries.get("items").is_some_and(Json::is_array);
        for (key, value) in entries {
            let here = below(pointer, key);
            if ANNOTATIONS.contains(&key.as_str()) || key.starts_with("x-") {
                continue;
            }
            let value = match key.as_str() {
                "$id" | "id" if pointer.is_empty() => continue,
                "$defs" | "definitions" => continue, // those that are referred to are walked
                "uniqueItems" if *value == json!(false) => continue,
                "$ref" => self.reference(value, &here, owner)?,
                "allOf" | "anyOf" | "oneOf" => self.list(value, &here, Some(owner))?,
                "prefixItems" => self.list(value, &here, None)?,
                "items" if value.is_array() => self.list(value, &here, None)?,
                "items" | "additionalItems" | "additionalProperties" => {
                    self.schema(value, &here, &here)?
                }
                "properties" => self.map(value, &here)?,
                "patternProperties" => {
                    for pattern in value.as_object().into_iter().flatten() {
                        pattern_at(pattern.0, &below(&here, pattern.0))?;
                    }
                    self.map(value, &here)?
                }
                "type" => checked_type(value, &here)?,
                "const" => value.clone(),
                "enum" => match value.as_array() {
                    Some(values) if !values.is_empty() => value.clone(),
                    _ => return Err(invalid(&here, "`enum` is a list of at least one value")),
                },
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
                | "maxProperties" => {
                    let count = value.as_u64().or_else(|| {
                        value
                            .as_f64()
                            .filter(|n| n.fract() == 0.0 && *n >= 0.0)
                            .map(|n| n as u64)
                    });
                    match count.filter(|n| *n <= u64::from(u32::MAX)) {
                        Some(count) => json!(count),
                        None => {
                            return Err(invalid(
                                &here,
                                format!(
                                    "`{key}` is a whole number from 0 to {}, not {value}",
                                    u32::MAX
                                ),
                            ))
                        }
                    }
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                    match value.as_f64() {
                        Some(_) => value.clone(),
                        None => {
                            return Err(invalid(&here, format!("`{key}` is a number, not {value}")))
                        }
                    }
                }
                "multipleOf" => match value.as_f64().filter(|n| *n > 0.0) {
                    Some(_) => value.clone(),
                    None => {
                        return Err(invalid(
                            &here,
                            format!("`multipleOf` is a number above 0, not {value}"),
                        ))
                    }
                },
                "required" => match value.as_array() {
                    Some(names) if names.iter().all(Json::is_string) => value.clone(),
                    _ => return Err(invalid(&here, "`required` is a list of property names")),
                },
                "pattern" => match value.as_str() {
                    Some(pattern) => {
                        pattern_at(pattern, &here)?;
                        value.clone()
                    }
                    None => return Err(invalid(&here, "`pattern` is a regular expression")),
                },
                "format" => match value.as_str() {
                    Some(format) if FORMATS.contains(&format) => value.clone(),
                    _ => {
                        return Err(unsupported(
                            &here,
                            format!(
                                "the format {value} is not enforced; these are: {}",
                                FORMATS.join(", ")
                            ),
                        ))
                    }
                },
                _ => return Err(refused(key, &here)),
            };
            let key = match key.as_str() {
                "items" if old_items => "prefixItems",
                "additionalItems" if old_items => "items",
                "additionalItems" => continue, // means nothing without a list of `items`
                key => key,
            };
            made.insert(key.into(), value);
        }
        check_bounds(&made, pointer)?;
        Ok(Json::Object(made))
    }

    fn list(&mut self, value: &'a Json, pointer: &str, owner: Option<&str>) -> Result<Json, Error> {
        let items = match value.as_array() {
            Some(items) if !items.is_empty() => items,
            _ => return Err(invalid(pointer, "a list of at least one schema is needed")),
        };
        let mut made = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let here = format!("{pointer}/{i}");
            made.push(self.schema(item, &here, owner.unwrap_or(&here))?);
        }
        Ok(Json::Array(made))
    }

    fn map(&mut self, value: &'a Json, pointer: &str) -> Result<Json, Error> {
        let entries = value
            .as_object()
            .ok_or_else(|| invalid(pointer, "an object of schemas is needed"))?;
        let mut made = Map::new();
        for (key, value) in entries {
            let here = below(pointer, key);
            made.insert(key.clone(), self.schema(value, &here, &here)?);
        }
        Ok(Json::Object(made))
    }

    /// The simple name of the schema that `value` refers to.
    fn reference(&mut self, value: &Json, here: &str, owner: &str) -> Result<Json, Error> {
        let text = value
            .as_str()
            .ok_or_else(|| invalid(here, format!("`$ref` is a text, not {value}")))?;
        let own_id = self.root.get("$id").or(self.root.get("id"));
        let own_id = own_id.and_then(Json::as_str).unwrap_or_default();
        let fragment = match text.strip_prefix(own_id.trim_end_matches('#')) {
            Some("") => "",
            Some(rest) if rest.starts_with('#') => &rest[1..],
            _ if text.starts_with('#') => &text[1..],
            _ => {
                return Err(unsupported(
                    here,
                    format!("`$ref` to {text:?}: only references into this schema are followed"),
                ))
            }
        };
        let decoded = percent_decoded(fragment);
        let pointer =
            match decoded.as_str() {
                "" | "/" => String::new(),
                pointer if pointer.starts_with('/') => pointer.to_string(),
                anchor => self.anchors.get(anchor).cloned().ok_or_else(|| {
                    invalid(here, format!("`$ref`: there is no anchor {anchor:?}"))
                })?,
            };
        self.steps
            .entry(owner.into())
            .or_default()
            .push((pointer.clone(), here.into()));
        if pointer.is_empty() {
            return Ok(json!("#"));
        }
        if self.root.pointer(&pointer).is_none() {
            return Err(invalid(
                here,
                format!("`$ref`: there is nothing at {pointer:?} in this schema"),
            ));
        }
        let next = format!("d{}", self.names.len());
        if !self.names.contains_key(&pointer) {
            self.names.insert(pointer.clone(), next);
            self.waiting.push_back(pointer.clone());
        }
        Ok(json!(format!("#/$defs/{}", self.names[&pointer])))
    }

    /// Refuses references that lead back to themselves without a step into the document.
    fn check_circles(&self) -> Result<(), Error> {
        let mut done: HashSet<&str> = HashSet::new();
        for start in self.steps.keys() {
            let mut path: Vec<&str> = Vec::new();
            self.follow(start, &mut path, &mut done)?;
        }
        Ok(())
    }

    fn follow<'b>(
        &'b self,
        at: &'b str,
        path: &mut Vec<&'b str>,
        done: &mut HashSet<&'b str>,
    ) -> Result<(), Error> {
        if done.contains(at) {
            return Ok(());
        }
        path.push(at);
        for (target, place) in self.steps.get(at).into_iter().flatten() {
            if path.contains(&target.as_str()) {
                return Err(invalid(place, "`$ref` leads back to itself: it never ends"));
            }
            self.follow(target, path, done)?;
        }
        path.pop();
        done.insert(at);
        Ok(())
    }
}

fn refused(key: &str, here: &str) -> Error {
    let known = match key {
        "uniqueItems"
        | "contains"
        | "minContains"
        | "maxContains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "dependencies"
        | "dependentRequired"
        | "dependentSchemas"
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

fn pattern_at(pattern: &str, here: &str) -> Result<(), Error> {
    check_pattern(pattern).map_err(|error| {
        invalid(
            here,
            format!("the regular expression {pattern:?} is not accepted: {error}"),
        )
    })
}

fn checked_type(value: &Json, here: &str) -> Result<Json, Error> {
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

/// Bounds that no value can meet.
fn check_bounds(schema: &Map<String, Json>, pointer: &str) -> Result<(), Error> {
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

fn percent_decoded(text: &str) -> String {
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
