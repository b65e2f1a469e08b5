//! JSON Schema: everything that is not enforced is refused, by its name and its JSON pointer.
//!
//! The crate ignores keywords that it does not know, and follows only simple references. So the schema is walked here
//! first: keywords and their values are checked, and every schema that a `$ref` leads to gets a simple name under `$defs`.
mod checks;
mod disjoint;
mod ecma;
mod endless;
mod formats;
mod negated;
mod numbers;
mod one_of;
mod options;
mod patterns;
mod quoted;
mod references;
mod rewritten;
mod spellings;
mod spent;
mod texts;

use super::{Budget, Error, ErrorKind, Place};
use checks::{
    check_bounds, check_counts, check_items, checked_bound, checked_count, checked_names,
    checked_type, has_control, refused,
};
use disjoint::Ground;
pub use ecma::without_stops;
use formats::Format;
pub use options::with_options;
pub use patterns::{check as check_pattern, Fault};
use patterns::{pattern_at, patterns_at};
use references::References;
use serde_json::{json, Map, Value as Json};
pub use texts::expressions as text_expressions;

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
pub fn checked(schema: &Json, budget: &Budget) -> Result<Json, Error> {
    let rewritten = rewritten::rewritten(schema, budget)?;
    let schema = rewritten.as_ref().unwrap_or(schema);
    let mut walk = Walk {
        budget,
        references: References::new(schema, budget)?,
        ground: Ground::new(schema, budget),
        multiples: Vec::new(),
        multiple: None,
        is_composed: is_composed(schema),
        intersects: false,
        open_names: false,
        control: None,
    };
    let mut made = walk.schema(schema, "", "")?;
    let mut definitions = Map::new();
    while let Some(next) = walk.references.next() {
        let definition = walk.schema(next.schema, &next.pointer, &next.pointer)?;
        definitions.insert(next.name, definition);
    }
    walk.references.check_circles()?;
    walk.check_multiples()?;
    if let (Json::Object(made), false) = (&mut made, definitions.is_empty()) {
        made.insert("$defs".into(), Json::Object(definitions));
    }
    if let Some(name) = endless::find(&made, budget)? {
        let name = name.strip_prefix("#/$defs/").unwrap_or_default();
        return Err(invalid(
            walk.references.pointer_of(name),
            "every document of this schema would contain another one, without end",
        ));
    }
    let made = with_options(made);
    match (walk.open_names, &walk.control) {
        (true, Some(pointer)) => Err(unsupported(
            pointer,
            "a control character in a value, beside properties of any name, is not enforced",
        )),
        (true, None) => Ok(options::without_escapes(made)),
        (false, _) => Ok(made),
    }
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

/// Whether schemas may be combined with one another anywhere in this one.
fn is_composed(json: &Json) -> bool {
    const KEYWORDS: [&str; 5] = ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"];
    match json {
        Json::Object(entries) => entries
            .iter()
            .any(|(key, value)| KEYWORDS.contains(&key.as_str()) || is_composed(value)),
        Json::Array(items) => items.iter().any(is_composed),
        _ => false,
    }
}

/// The pointer of an entry.
pub fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

struct Walk<'a> {
    budget: &'a Budget,
    references: References<'a>,
    ground: Ground<'a>,
    /// Every `multipleOf`, and the pointer of the first one.
    multiples: Vec<numbers::Decimal>,
    multiple: Option<String>,
    /// Whether a value may have to fit several schemas, as a look at the source says before the walk.
    is_composed: bool,
    /// Whether a value may have to fit several schemas.
    intersects: bool,
    /// Whether an object has properties of its own and others of any name.
    open_names: bool,
    /// A `const` or `enum` with a control character that only `\u` can write.
    control: Option<String>,
}

impl<'a> Walk<'a> {
    /// `owner` is the definition that this schema belongs to as long as it applies to the same value; empty elsewhere
    /// is the root's.
    fn schema(&mut self, schema: &'a Json, pointer: &str, owner: &str) -> Result<Json, Error> {
        self.budget.spend(20 + pointer.len() / 16)?;
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
        self.budget.spend(80)?;
        let mut made = Map::new();
        // Rewritten keywords that move to `allOf`, because the schema may have another keyword of that name.
        let mut also: Vec<Json> = Vec::new();
        // Up to draft 2019-09, a list of `items` was what `prefixItems` is now.
        let old_items = entries.get("items").is_some_and(Json::is_array);
        check_items(entries, old_items, pointer)?;
        for (key, value) in entries {
            self.budget.spend(10 + (pointer.len() + key.len()) / 16)?;
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
                "$ref" => match self.references.resolve(value, &here, owner, self.budget)? {
                    Json::Bool(false) => return Ok(json!(false)),
                    target => target,
                },
                "allOf" | "anyOf" => self.list(value, &here, Some(owner))?,
                "oneOf" => {
                    let options = self.list(value, &here, Some(owner))?;
                    one_of::check(&self.ground, schema, value, &here)?;
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
                    patterns_at(schemas, &here, self.budget)?
                }
                "type" => {
                    self.budget.copy(value)?;
                    checked_type(value, &here)?
                }
                "const" => self.literal(value, &here)?,
                "enum" => match value.as_array() {
                    Some(values) if !values.is_empty() => self.literal(value, &here)?,
                    _ => return Err(invalid(&here, "`enum` is a list of at least one value")),
                },
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
                | "maxProperties" => checked_count(key, value, &here)?,
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                    checked_bound(key, value, &here)?
                }
                "multipleOf" => {
                    let (number, passed) = numbers::checked_multiple(value, &here)?;
                    self.add_multiple(number, here);
                    passed
                }
                "required" => {
                    self.budget.copy(value)?;
                    checked_names(key, value, &here)?
                }
                "pattern" => match value.as_str() {
                    Some(pattern) => {
                        let pattern = pattern_at(pattern, &here, self.budget)?;
                        json!(quoted::exact(&pattern, &here, self.budget)?)
                    }
                    None => return Err(invalid(&here, "`pattern` is a regular expression")),
                },
                "format" => match formats::format_of(value, entries, &here)? {
                    Format::Text => value.clone(),
                    Format::Schema(schema) => {
                        if let Some(multiple) = schema.get("multipleOf") {
                            let (number, _) = numbers::checked_multiple(multiple, &here)?;
                            self.add_multiple(number, here);
                        }
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
        numbers::move_excluded(&mut made, self.is_composed);
        also.extend(spellings::of_numbers(&mut made));
        self.intersects |= spent::moved_to_names(&mut made, self.budget)?;
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
            // A single schema needs no `allOf`.
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
        self.budget.copy(value)?;
        numbers::check_exact(value, here)?;
        if has_control(value) {
            self.control.get_or_insert_with(|| here.into());
        }
        Ok(value.clone())
    }

    fn add_multiple(&mut self, number: numbers::Decimal, here: String) {
        self.multiples.push(number);
        self.multiple.get_or_insert(here);
    }

    fn check_multiples(&self) -> Result<(), Error> {
        match &self.multiple {
            Some(pointer) if self.intersects && !numbers::can_be_combined(&self.multiples) => {
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
}
