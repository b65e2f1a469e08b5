//! `$ref` and `$anchor`: which schemas are referred to, and what they are called under `$defs`.
use super::checks::percent_decoded;
use super::{below, invalid, unsupported};
use crate::grammar::{limits, Budget, Error, ErrorKind, Place};
use serde_json::{json, Value as Json};
use std::collections::{HashMap, HashSet, VecDeque};

pub struct References<'a> {
    root: &'a Json,
    /// Names of the schemas that references lead to, by pointer.
    names: HashMap<String, String>,
    /// Pointers of those that were not walked yet.
    waiting: VecDeque<String>,
    /// Pointers by `$anchor`; none for a name that different schemas have.
    anchors: HashMap<String, Option<String>>,
    /// From a definition to the definitions that apply to the same value: a circle of them never ends.
    steps: HashMap<String, Vec<(String, String)>>,
}

/// A schema that a reference leads to.
pub struct Definition<'a> {
    pub name: String,
    pub pointer: String,
    pub schema: &'a Json,
}

impl<'a> References<'a> {
    pub fn new(root: &'a Json, budget: &Budget) -> Result<Self, Error> {
        let mut references = References {
            root,
            names: HashMap::new(),
            waiting: VecDeque::new(),
            anchors: HashMap::new(),
            steps: HashMap::new(),
        };
        references.find_anchors(root, "", budget)?;
        Ok(references)
    }

    /// The next schema that was referred to and was not walked yet.
    pub fn next(&mut self) -> Option<Definition<'a>> {
        let pointer = self.waiting.pop_front()?;
        Some(Definition {
            name: self.names[&pointer].clone(),
            schema: self.root.pointer(&pointer).expect("it was looked up"),
            pointer,
        })
    }

    /// Returns the pointer of the schema with this name; the root's if there is none.
    pub fn pointer_of(&self, name: &str) -> &str {
        let found = self.names.iter().find(|(_, other)| *other == name);
        found.map_or("", |(pointer, _)| pointer)
    }

    fn find_anchors(
        &mut self,
        schema: &'a Json,
        pointer: &str,
        budget: &Budget,
    ) -> Result<(), Error> {
        budget.spend(20 + pointer.len() / 16)?;
        match schema {
            // Another `$id` begins a schema with anchors of its own.
            Json::Object(entries) if pointer.is_empty() || !entries.contains_key("$id") => {
                // `$ref` may lead to either; the walk refuses a schema with the second one.
                for key in ["$anchor", "$dynamicAnchor"] {
                    if let Some(Json::String(anchor)) = entries.get(key) {
                        self.add_anchor(anchor, pointer, schema, budget)?;
                    }
                }
                for (key, value) in entries {
                    let here = below(pointer, key);
                    match (key.as_str(), value) {
                        ("const" | "enum" | "default" | "examples", _) => {}
                        (
                            "properties" | "patternProperties" | "$defs" | "definitions"
                            | "dependentSchemas" | "dependencies",
                            Json::Object(all),
                        ) => {
                            for (name, one) in all {
                                self.find_anchors(one, &below(&here, name), budget)?;
                            }
                        }
                        _ => self.find_anchors(value, &here, budget)?,
                    }
                }
            }
            Json::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.find_anchors(item, &format!("{pointer}/{i}"), budget)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_anchor(
        &mut self,
        anchor: &str,
        pointer: &str,
        schema: &Json,
        budget: &Budget,
    ) -> Result<(), Error> {
        budget.copy(schema)?; // it is compared with another
        let place = match self.anchors.get(anchor) {
            None => Some(pointer.to_string()),
            // The schema of a rewritten keyword is a copy, which has the anchors of the original.
            Some(Some(first)) if self.root.pointer(first) == Some(schema) => Some(first.clone()),
            Some(_) => None,
        };
        self.anchors.insert(anchor.into(), place);
        Ok(())
    }

    /// The simple name of the schema that `value` refers to; `false` if that is the schema.
    pub fn resolve(
        &mut self,
        value: &Json,
        here: &str,
        owner: &str,
        budget: &Budget,
    ) -> Result<Json, Error> {
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
        let pointer = match decoded.as_str() {
            "" => String::new(),
            pointer if pointer.starts_with('/') => pointer.to_string(),
            anchor => match self.anchors.get(anchor) {
                Some(Some(pointer)) => pointer.clone(),
                Some(None) => {
                    return Err(invalid(
                        here,
                        format!("`$ref`: several schemas have the anchor {anchor:?}"),
                    ))
                }
                None => {
                    return Err(invalid(
                        here,
                        format!("`$ref`: there is no anchor {anchor:?}"),
                    ))
                }
            },
        };
        budget.spend(100 + (2 * pointer.len() + here.len()) / 16)?;
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
    pub fn check_circles(&self) -> Result<(), Error> {
        let mut done: HashSet<&str> = HashSet::new();
        for start in self.steps.keys() {
            let mut path: HashSet<&str> = HashSet::new();
            self.follow(start, &mut path, &mut done)?;
        }
        Ok(())
    }

    fn follow<'b>(
        &'b self,
        at: &'b str,
        path: &mut HashSet<&'b str>,
        done: &mut HashSet<&'b str>,
    ) -> Result<(), Error> {
        if done.contains(at) {
            return Ok(());
        }
        path.insert(at);
        for (target, place) in self.steps.get(at).into_iter().flatten() {
            if path.contains(target.as_str()) {
                return Err(invalid(place, "`$ref` leads back to itself: it never ends"));
            }
            self.follow(target, path, done)?;
        }
        path.remove(at);
        done.insert(at);
        Ok(())
    }
}
