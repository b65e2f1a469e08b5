//! Keywords that the crate does not know, said by keywords that it knows: `not`, `if`, `then`, `else`,
//! `dependentRequired`, `dependentSchemas`, `dependencies` and `propertyNames`. What they say is added to `allOf`. The
//! keywords themselves stay, so that pointers into the schema stay right; the walk checks them and passes over them.
use super::negated::Negation;
use super::{below, invalid, unsupported};
use crate::grammar::{Budget, Error};
use serde_json::{json, Map, Value as Json};

/// The keywords that are said by others.
pub const KEYWORDS: [&str; 8] = [
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "propertyNames",
];
/// Properties that others depend on, in one schema. Each doubles the ways to write an object.
const DEPENDENCIES: usize = 6;

/// The schema with what its keywords say; None if it has none of them.
pub fn rewritten(schema: &Json, budget: &Budget) -> Result<Option<Json>, Error> {
    if !mentions(schema) {
        return Ok(None);
    }
    let mut made = schema.clone();
    let rewriter = Rewriter {
        root: schema,
        budget,
    };
    rewriter.schema(&mut made, "", false)?;
    Ok(Some(made))
}

/// Whether one of the keywords is anywhere in the schema, perhaps as the name of a property.
pub fn mentions(json: &Json) -> bool {
    match json {
        Json::Object(entries) => entries
            .iter()
            .any(|(key, value)| KEYWORDS.contains(&key.as_str()) || mentions(value)),
        Json::Array(items) => items.iter().any(mentions),
        _ => false,
    }
}

struct Rewriter<'a> {
    root: &'a Json,
    /// Copies are counted: within `not` and `if`, each level of conditions doubles the schema.
    budget: &'a Budget,
}

impl Rewriter<'_> {
    /// `is_negated`: the schema is a part of one that is negated, which has to be copied.
    fn schema(&self, schema: &mut Json, pointer: &str, is_negated: bool) -> Result<(), Error> {
        let Json::Object(entries) = schema else {
            return Ok(());
        };
        for (key, value) in entries.iter_mut() {
            self.budget.spend(10 + (pointer.len() + key.len()) / 16)?;
            let here = below(pointer, key);
            match (key.as_str(), value) {
                (
                    "properties" | "patternProperties" | "$defs" | "definitions"
                    | "dependentSchemas" | "dependencies",
                    Json::Object(all),
                ) => {
                    for (name, one) in all.iter_mut() {
                        self.budget.spend(10 + (here.len() + name.len()) / 16)?;
                        self.schema(one, &below(&here, name), is_negated)?;
                    }
                }
                ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Json::Array(all)) => {
                    for (i, one) in all.iter_mut().enumerate() {
                        self.budget.spend(10 + here.len() / 16)?;
                        self.schema(one, &format!("{here}/{i}"), is_negated)?;
                    }
                }
                ("items" | "additionalItems" | "additionalProperties" | "then" | "else", one) => {
                    self.schema(one, &here, is_negated)?
                }
                ("not" | "if", one) => self.schema(one, &here, true)?,
                _ => {}
            }
        }
        let also = self.said(entries, pointer, is_negated)?;
        match entries.get_mut("allOf") {
            _ if also.is_empty() => {}
            Some(Json::Array(all)) => all.extend(also),
            Some(_) => {} // the walk refuses it
            None => {
                entries.insert("allOf".into(), Json::Array(also));
            }
        }
        Ok(())
    }

    /// A schema that stands at the pointer. One that has conditions of its own is referred to: copies of copies would
    /// double with each level.
    fn part(&self, schema: &Json, pointer: &str, is_negated: bool) -> Result<Json, Error> {
        if !is_negated && mentions(schema) {
            self.budget.spend(10 + pointer.len())?;
            return Ok(json!({"$ref": format!("#{}", pointer.replace('%', "%25"))}));
        }
        self.budget.copy(schema)?;
        Ok(schema.clone())
    }

    /// The restrictions that the keywords of one schema state.
    fn said(
        &self,
        entries: &Map<String, Json>,
        pointer: &str,
        is_negated: bool,
    ) -> Result<Vec<Json>, Error> {
        let mut also = Vec::new();
        if let Some(not) = entries.get("not") {
            also.push(Negation::new(self.root, self.budget).of(not, &below(pointer, "not"))?);
        }
        if let Some(condition) = entries.get("if") {
            self.budget.copy(condition)?;
            let branch = |key: &str| match entries.get(key) {
                Some(branch) => self.part(branch, &below(pointer, key), is_negated),
                None => Ok(json!(true)),
            };
            let (then, other) = (branch("then")?, branch("else")?);
            if then != json!(true) || other != json!(true) {
                let not =
                    Negation::new(self.root, self.budget).of(condition, &below(pointer, "if"))?;
                also.push(json!({"anyOf": [
                    {"allOf": [condition, then]},
                    {"allOf": [not, other]},
                ]}));
            }
        }
        for key in ["dependentRequired", "dependentSchemas", "dependencies"] {
            let Some(value) = entries.get(key) else {
                continue;
            };
            let here = below(pointer, key);
            let all = value
                .as_object()
                .ok_or_else(|| invalid(&here, format!("`{key}` is an object")))?;
            if all.len() > DEPENDENCIES {
                return Err(unsupported(
                    &here,
                    format!("`{key}` is enforced for at most {DEPENDENCIES} properties"),
                ));
            }
            for (name, needed) in all {
                let needed = self.part(needed, &below(&here, name), is_negated)?;
                also.extend(dependency(key, name, &needed, &here)?);
            }
        }
        if let Some(names) = entries.get("propertyNames") {
            self.budget.copy(names)?;
            also.extend(names_of(names, entries, &below(pointer, "propertyNames"))?);
        }
        Ok(also)
    }
}

/// An object without the property, or one that has what the property needs.
fn dependency(key: &str, name: &str, needed: &Json, here: &str) -> Result<Option<Json>, Error> {
    let needed = match needed {
        Json::Array(names) if key != "dependentSchemas" => {
            if !names.iter().all(Json::is_string) {
                return Err(invalid(
                    &below(here, name),
                    "a list of property names is needed",
                ));
            }
            if names.is_empty() {
                return Ok(None);
            }
            json!({"required": names})
        }
        Json::Bool(_) | Json::Object(_) if key != "dependentRequired" => needed.clone(),
        _ => {
            let what = match key {
                "dependentRequired" => "a list of property names",
                "dependentSchemas" => "a schema",
                _ => "a schema or a list of property names",
            };
            return Err(invalid(&below(here, name), format!("{what} is needed")));
        }
    };
    Ok(Some(
        json!({"anyOf": [{"properties": {name: false}}, needed]}),
    ))
}

/// The names that properties may have, as properties and patterns.
fn names_of(names: &Json, entries: &Map<String, Json>, here: &str) -> Result<Option<Json>, Error> {
    let none = json!({"additionalProperties": false});
    let rules = match names {
        Json::Bool(true) => return Ok(None),
        Json::Bool(false) => return Ok(Some(none)),
        Json::Object(rules) => rules,
        _ => return Err(invalid(here, "a schema is an object, true or false")),
    };
    let refused = || {
        unsupported(
            here,
            "`propertyNames` is enforced as `enum`, `const`, `pattern`, or `minLength` and `maxLength`, one of them alone",
        )
    };
    let mut said = rules
        .iter()
        .filter(|(key, value)| key.as_str() != "type" || **value != json!("string"))
        .filter(|(key, _)| !super::is_annotation(key));
    let first = said.next();
    let others: Vec<_> = said.collect();
    let pattern = match first {
        None => return Ok(None),
        Some((key, value)) if key == "enum" || key == "const" => {
            let allowed = match value {
                Json::Array(values) if key == "enum" => values.clone(),
                value => vec![value.clone()],
            };
            if !others.is_empty() {
                return Err(refused());
            }
            let properties: Map<String, Json> = allowed
                .iter()
                .filter_map(Json::as_str)
                .map(|name| (name.into(), json!(true)))
                .collect();
            return Ok(Some(
                json!({"properties": properties, "additionalProperties": false}),
            ));
        }
        Some((key, Json::String(pattern))) if key == "pattern" && others.is_empty() => {
            pattern.clone()
        }
        Some(_) => {
            let length = |key: &str| match rules.get(key) {
                None => Ok(String::new()),
                Some(value) => value.as_u64().map(|n| n.to_string()).ok_or_else(refused),
            };
            let is_length = |key: &str| key == "minLength" || key == "maxLength";
            if !first.iter().chain(&others).all(|(key, _)| is_length(key)) {
                return Err(refused());
            }
            let (least, most) = (length("minLength")?, length("maxLength")?);
            let least = if least.is_empty() { "0".into() } else { least };
            format!("^[\\s\\S]{{{least},{most}}}$")
        }
    };
    // Whether a listed name matches is not known here.
    if ["properties", "patternProperties", "required"]
        .iter()
        .any(|key| entries.contains_key(*key))
    {
        return Err(unsupported(
            here,
            "`propertyNames` as a pattern is not enforced beside `properties`, `patternProperties` and `required`",
        ));
    }
    Ok(Some(
        json!({"patternProperties": {pattern: true}, "additionalProperties": false}),
    ))
}
