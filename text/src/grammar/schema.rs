//! JSON Schema: everything that is not enforced is refused, by its name and its JSON pointer.
//!
//! The crate ignores keywords that it does not know, and follows only simple references. So the schema is walked here
//! first: keywords and their values are checked, and every schema that a `$ref` leads to gets a simple name under `$defs`.
mod checks;
mod disjoint;
mod endless;
mod formats;
mod negated;
mod numbers;
mod patterns;
mod rewritten;

use super::{limits, Error, ErrorKind, Place};
use checks::{check_bounds, check_counts, checked_type, has_control, percent_decoded, refused};
use disjoint::{Facts, Ground};
use formats::Format;
pub use patterns::check as check_pattern;
use patterns::{pattern_at, patterns_at};
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

/// The schema as the crate is given it.
pub fn checked(schema: &Json) -> Result<Json, Error> {
    let rewritten = rewritten::rewritten(schema)?;
    let schema = rewritten.as_ref().unwrap_or(schema);
    let mut walk = Walk {
        root: schema,
        names: HashMap::new(),
        waiting: VecDeque::new(),
        anchors: HashMap::new(),
        steps: HashMap::new(),
        ground: Ground::new(schema),
        multiples: Vec::new(),
        intersects: false,
        open_names: false,
        control: None,
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
    walk.check_multiples()?;
    if let (Json::Object(made), false) = (&mut made, definitions.is_empty()) {
        made.insert("$defs".into(), Json::Object(definitions));
    }
    if let Some(name) = endless::find(&made) {
        let name = name.strip_prefix("#/$defs/").unwrap_or_default();
        let pointer = walk.names.iter().find(|(_, other)| *other == name);
        return Err(invalid(
            pointer.map_or("", |(pointer, _)| pointer),
            "every document of this schema would contain another one, without end",
        ));
    }
    let made = with_options(made);
    match (walk.open_names, &walk.control) {
        (true, Some(pointer)) => Err(unsupported(
            pointer,
            "a control character in a value, beside properties of any name, is not enforced",
        )),
        (true, None) => Ok(without_escapes(made)),
        (false, _) => Ok(made),
    }
}

/// Between the parts of a document there may be one blank, or the end of a line and the blanks that indent the next one. A
/// model that could write blanks without end would never finish the document.
const WHITESPACE: &str = "[ \\t]|\\r?\\n[ \\t]{0,32}";

pub fn with_options(schema: Json) -> Json {
    let mut entries = match schema {
        Json::Object(entries) => entries,
        Json::Bool(true) => Map::new(),
        other => return other,
    };
    entries.insert(
        "x-guidance".into(),
        json!({"whitespace_pattern": WHITESPACE}),
    );
    Json::Object(entries)
}

/// A schema in whose texts `\u` is not written. Where properties of other names than those of the schema are allowed, a
/// name of the schema must not come by another spelling: `"\u0061"` would be a property `a` that nothing checked.
fn without_escapes(mut schema: Json) -> Json {
    if let Some(options) = schema.pointer_mut("/x-guidance") {
        options["json_allowed_escapes"] = json!("nrbtf\\\"");
    }
    schema
}

fn invalid(pointer: &str, text: impl Into<String>) -> Error {
    Error::invalid(text).at(Place::Pointer(pointer.into()))
}

fn unsupported(pointer: &str, text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, text).at(Place::Pointer(pointer.into()))
}

fn is_annotation(key: &str) -> bool {
    ANNOTATIONS.contains(&key) || key.starts_with("x-")
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
    ground: Ground<'a>,
    /// Every `multipleOf`, with its pointer.
    multiples: Vec<(numbers::Decimal, String)>,
    /// Whether a value may have to fit several schemas.
    intersects: bool,
    /// Whether an object has properties of its own and others of any name.
    open_names: bool,
    /// A `const` or `enum` with a control character that only `\u` can write.
    control: Option<String>,
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
        // What becomes a schema of `allOf`, because the keyword that it is written with may be taken.
        let mut also: Vec<Json> = Vec::new();
        // Up to draft 2019-09, a list of `items` was what `prefixItems` is now.
        let old_items = entries.get("items").is_some_and(Json::is_array);
        for (key, value) in entries {
            let here = below(pointer, key);
            if is_annotation(key) {
                continue;
            }
            if rewritten::KEYWORDS.contains(&key.as_str()) {
                self.check_rewritten(key, value, &here)?;
                continue;
            }
            let value = match key.as_str() {
                "$id" | "id" if pointer.is_empty() => continue,
                "$defs" | "definitions" => continue, // those that are referred to are walked
                "uniqueItems" if *value == json!(false) => continue,
                "$ref" => match self.reference(value, &here, owner)? {
                    Json::Bool(false) => return Ok(json!(false)),
                    target => target,
                },
                "allOf" | "anyOf" => self.list(value, &here, Some(owner))?,
                "oneOf" => {
                    let options = self.list(value, &here, Some(owner))?;
                    self.check_one_of(schema, value, &here)?;
                    also.push(json!({"anyOf": options}));
                    continue;
                }
                "prefixItems" => self.list(value, &here, None)?,
                "items" if value.is_array() => self.list(value, &here, None)?,
                "items" | "additionalItems" | "additionalProperties" => {
                    self.schema(value, &here, &here)?
                }
                "properties" => self.map(value, &here)?,
                "patternProperties" => {
                    let schemas = self.map(value, &here)?;
                    patterns_at(schemas, &here)?
                }
                "type" => checked_type(value, &here)?,
                "const" => self.literal(value, &here)?,
                "enum" => match value.as_array() {
                    Some(values) if !values.is_empty() => self.literal(value, &here)?,
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
                    if !value.is_number() {
                        return Err(invalid(&here, format!("`{key}` is a number, not {value}")));
                    }
                    numbers::check_exact(value, &here)
                        .map_err(|error| unsupported(&here, format!("`{key}`: {}", error.text)))?;
                    value.clone()
                }
                "multipleOf" => match value.as_f64().filter(|n| *n > 0.0) {
                    Some(number) => {
                        let decimal = numbers::Decimal::of(number).ok_or_else(|| {
                            unsupported(
                                &here,
                                format!("`multipleOf` {value} has too many digits to be enforced"),
                            )
                        })?;
                        self.multiples.push((decimal, here));
                        value.clone()
                    }
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
                    Some(pattern) => json!(pattern_at(pattern, &here)?),
                    None => return Err(invalid(&here, "`pattern` is a regular expression")),
                },
                "format" => match formats::format_of(value, entries, &here)? {
                    Format::Text => value.clone(),
                    Format::Schema(schema) => {
                        also.push(schema);
                        continue;
                    }
                    Format::Nothing => continue,
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
        check_counts(&made, pointer)?;
        if numbers::leaves_nothing(&mut made) {
            return Ok(json!(false));
        }
        let has = |key: &str| made.contains_key(key);
        self.open_names |= (has("properties") || has("required") || has("patternProperties"))
            && made.get("additionalProperties") != Some(&json!(false));
        Ok(Json::Object(self.assembled(made, also)))
    }

    /// The schema with what else must hold.
    fn assembled(&mut self, made: Map<String, Json>, mut also: Vec<Json>) -> Map<String, Json> {
        let mut out = Map::new();
        let mut patterns = made.get("patternProperties").cloned();
        for (key, value) in made.iter() {
            match key.as_str() {
                // The crate must see these two side by side.
                "patternProperties" if made.contains_key("additionalProperties") => continue,
                "additionalProperties" => {
                    if let Some(patterns) = patterns.take() {
                        out.insert("patternProperties".into(), patterns);
                    }
                }
                _ => {}
            }
            out.insert(key.clone(), value.clone());
        }
        if let Some(all) = out.get_mut("allOf").and_then(Json::as_array_mut) {
            all.append(&mut also);
        } else if out.is_empty() && also.len() == 1 {
            // What is alone needs no `allOf`.
            if let Some(Json::Object(only)) = also.pop() {
                out = only;
            }
        } else if !also.is_empty() {
            out.insert("allOf".into(), Json::Array(also));
        }
        let applied = ["allOf", "anyOf", "$ref"].map(|key| usize::from(out.contains_key(key)));
        self.intersects |=
            out.contains_key("allOf") || applied[1] + applied[2] > 0 && out.len() > 1;
        out
    }

    /// Checks the schemas of a keyword whose meaning stands in `allOf` by now.
    fn check_rewritten(&mut self, key: &str, value: &'a Json, here: &str) -> Result<(), Error> {
        match (key, value) {
            ("dependentRequired", _) => {}
            ("dependentSchemas" | "dependencies", Json::Object(all)) => {
                for (name, one) in all.iter().filter(|(_, one)| !one.is_array()) {
                    let here = below(here, name);
                    self.schema(one, &here, &here)?;
                }
            }
            _ => {
                self.schema(value, here, here)?;
            }
        }
        Ok(())
    }

    /// A value of `const` or the values of `enum`.
    fn literal(&mut self, value: &Json, here: &str) -> Result<Json, Error> {
        numbers::check_exact(value, here)?;
        if has_control(value) {
            self.control.get_or_insert_with(|| here.into());
        }
        Ok(value.clone())
    }

    /// `oneOf` is enforced where no value can fit two of its options.
    fn check_one_of(&self, schema: &'a Json, options: &'a Json, here: &str) -> Result<(), Error> {
        let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
        let facts: Vec<Facts> = options
            .iter()
            .map(|option| Facts::of(&self.ground, &[schema, option]))
            .collect();
        for (j, second) in facts.iter().enumerate() {
            for (i, first) in facts[..j].iter().enumerate() {
                if !Facts::are_disjoint(&self.ground, first, second) {
                    return Err(unsupported(
                        here,
                        format!(
                            "`oneOf`: options {i} and {j} may both hold, which is not enforced; write `anyOf`, or tell them apart by type or by a required property with different constants"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_multiples(&self) -> Result<(), Error> {
        let all: Vec<_> = self.multiples.iter().map(|(one, _)| *one).collect();
        match self.multiples.first() {
            Some((_, pointer)) if self.intersects && !numbers::can_be_combined(&all) => {
                Err(unsupported(
                    pointer,
                    "`multipleOf` is too large to be combined with the other schemas",
                ))
            }
            _ => Ok(()),
        }
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

    /// The simple name of the schema that `value` refers to; `false` if that is the schema.
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
                "" => String::new(),
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
        // The crate would refuse the whole schema, also where this is one option of several.
        if self.root.pointer(&pointer) == Some(&Json::Bool(false)) {
            return Ok(json!(false));
        }
        let next = format!("d{}", self.names.len());
        if !self.names.contains_key(&pointer) {
            if self.names.len() >= limits::DEFINITIONS {
                return Err(Error::new(
                    ErrorKind::TooLarge,
                    format!(
                        "the schema refers to more than {} schemas",
                        limits::DEFINITIONS
                    ),
                )
                .at(Place::Pointer(here.into())));
            }
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
