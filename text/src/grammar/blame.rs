//! Finds the keyword of a schema that the crate refuses. The crate does not name it, so keywords are left out, one at a
//! time, until the rest compiles. If a Lark source has several schemas, or if there are several tools, the first one
//! that does not compile alone is searched.
use super::lark;
use super::schema::{self, below};
use super::source::{Grammar, Kind};
use super::{limits, Budget, Error, Place};
use serde_json::Value as Json;
use std::time::Instant;

/// The error with the pointer of a keyword without which the schema compiles. If several must go, the pointer leads to
/// the schema around them. `started` is when the compilation began, and `compiles` tries a schema that was checked.
pub fn placed(
    error: Error,
    grammar: &Grammar,
    started: Instant,
    compiles: impl Fn(Json) -> bool,
) -> Error {
    let is_cheap =
        started.elapsed() < limits::BLAME_TIME / 4 && grammar.text().len() <= limits::BLAME_BYTES;
    // Of a schema in Lark, the crate tells where it begins.
    let is_placed = error.place.is_some() && !error.text.contains("JSON schema");
    if is_placed || !is_cheap {
        return error;
    }
    let sources: Vec<(Json, Owner)> = match grammar.kind() {
        Kind::JsonSchema => match serde_json::from_str(grammar.text()) {
            Ok(schema) => vec![(schema, Owner::Grammar)],
            Err(_) => return error,
        },
        _ if !grammar.tools().is_empty() => {
            let tools = grammar.tools().iter().filter_map(|(name, schema)| {
                let schema: Json = serde_json::from_str(schema).ok()?;
                (!schema.is_null()).then_some((schema, Owner::Tool(name)))
            });
            tools.collect()
        }
        Kind::Lark if grammar.has_schemas() => lark::placed_schemas(grammar.text())
            .into_iter()
            .map(|(schema, place)| (schema, Owner::Rule(place)))
            .collect(),
        _ => return error,
    };
    let until = Instant::now() + limits::BLAME_TIME;
    let (count, kind) = (sources.len(), error.kind);
    for (source, owner) in sources {
        let search = Search {
            source,
            until,
            compiles: &compiles,
        };
        let may_be_right = !matches!(owner, Owner::Grammar);
        if may_be_right && search.compiles_changed(|_| true) || Instant::now() > until {
            continue;
        }
        let error = error.at(Place::Pointer(search.blamed(String::new(), 0)));
        // A pointer alone does not say to which schema it belongs.
        return match owner {
            Owner::Rule(place) if count > 1 => Error {
                text: error.to_string(),
                ..Error::new(kind, "").at(place)
            },
            Owner::Tool(name) => Error::of_tool(name, error),
            _ => error,
        };
    }
    error
}

/// The owner of a schema.
enum Owner<'a> {
    Grammar,
    /// A rule of a Lark source. The schema stands at this place of it.
    Rule(Place),
    Tool(&'a str),
}

struct Search<F> {
    source: Json,
    until: Instant,
    compiles: F,
}

impl<F: Fn(Json) -> bool> Search<F> {
    /// `depth` ends a search that follows references in a circle.
    fn blamed(&self, pointer: String, depth: usize) -> String {
        let entries = match self.source.pointer(&pointer) {
            Some(Json::Object(entries)) if depth < limits::DEPTH => entries,
            _ => return pointer,
        };
        let mut keys: Vec<&String> = entries.keys().collect();
        // Without its `type`, a schema says nothing about other types, and most contradictions vanish.
        keys.sort_by_key(|key| *key == "type");
        for key in keys {
            let here = below(&pointer, key);
            if !self.compiles_without(&pointer, key) {
                continue;
            }
            let mut parts = parts(key, &entries[key], &here).into_iter();
            return match parts.find(|part| self.compiles_with_any(part)) {
                Some(part) => self.blamed(part, depth + 1),
                None => here,
            };
        }
        pointer
    }

    fn compiles_without(&self, pointer: &str, key: &str) -> bool {
        self.compiles_changed(|source| {
            let entries = source.pointer_mut(pointer).and_then(Json::as_object_mut);
            entries
                .and_then(|entries| entries.shift_remove(key))
                .is_some()
        })
    }

    /// Whether it compiles if any value fits the schema at the pointer.
    fn compiles_with_any(&self, pointer: &str) -> bool {
        self.compiles_changed(|source| match source.pointer_mut(pointer) {
            Some(schema) => {
                *schema = Json::Bool(true);
                true
            }
            None => false,
        })
    }

    fn compiles_changed(&self, change: impl FnOnce(&mut Json) -> bool) -> bool {
        if Instant::now() > self.until {
            return false;
        }
        let mut changed = self.source.clone();
        let budget = Budget::until(self.until);
        change(&mut changed) && schema::checked(&changed, &budget).is_ok_and(&self.compiles)
    }
}

/// The pointers of the schemas that a keyword holds or refers to.
fn parts(key: &str, value: &Json, here: &str) -> Vec<String> {
    match (key, value) {
        ("properties" | "patternProperties" | "dependentSchemas", Json::Object(all)) => {
            all.keys().map(|name| below(here, name)).collect()
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Json::Array(all)) => {
            (0..all.len()).map(|i| format!("{here}/{i}")).collect()
        }
        ("items" | "additionalProperties" | "propertyNames" | "then" | "else", _) => {
            vec![here.into()]
        }
        ("$ref", Json::String(target)) if target.starts_with("#/") => vec![target[1..].into()],
        _ => Vec::new(),
    }
}
