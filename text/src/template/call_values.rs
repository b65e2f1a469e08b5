//! The types of a tool's parameters, from its schema, for formats of calls that write arguments one by one.
use crate::grammar::{checked_schema, text_expressions, Budget, Error, ErrorKind, Place};
use serde_json::{json, Map, Value as Json};
use std::collections::HashMap;
use std::sync::LazyLock;

/// How deep references and combinations of schemas are followed.
const DEPTH: usize = 32;
/// Where the schema of a tool's parameters is in the schemas that are made of it.
const HOME: &str = "/$defs/of";
/// Keywords that say something about all parameters together.
const OF_ALL: [&str; 15] = [
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "minProperties",
    "maxProperties",
    "enum",
    "const",
];
/// Keywords that combine schemas.
const COMBINE: [&str; 8] = [
    "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
];
/// A schema that says nothing.
static ANY: LazyLock<Map<String, Json>> = LazyLock::new(Map::new);

/// The schema of a tool's parameters. Its references lead into `HOME`.
pub struct Parameters<'a> {
    schema: Json,
    budget: &'a Budget,
}

pub struct Field {
    pub name: String,
    pub must: bool,
    /// The schemas that its values must fit all.
    pointers: Vec<String>,
}

/// A way to write a value.
pub enum Value {
    /// This text.
    Constant(String),
    /// A JSON document of this schema.
    Json(Json),
    /// A text as it is, which matches all these expressions of Lark.
    Text(Vec<String>),
}

/// A part of a parameter's schema of which the others are independent: its values are those of one of the parts.
struct Part<'a> {
    pointer: String,
    entries: &'a Map<String, Json>,
}

impl<'a> Parameters<'a> {
    pub fn of(schema: &Json, budget: &'a Budget) -> Result<Self, Error> {
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let schema = if schema.is_null() { &none } else { schema };
        budget.copy(schema)?;
        let own_id = schema.get("$id").or(schema.get("id"));
        let own_id = own_id.and_then(Json::as_str).unwrap_or_default();
        let mut schema = moved(schema, own_id.trim_end_matches('#'));
        if let Some(entries) = schema.as_object_mut() {
            for key in ["$id", "id"] {
                entries.shift_remove(key);
            }
        }
        Ok(Parameters { schema, budget })
    }

    /// The schema of all parameters as one object: a reference, and what it leads to.
    pub fn whole(&self) -> Json {
        self.with(json!({"$ref": format!("#{HOME}")}))
    }

    fn with(&self, mut schema: Json) -> Json {
        schema["$defs"] = json!({"of": self.schema});
        schema
    }

    /// The schema at a pointer, by itself.
    fn at(&self, pointer: &str) -> Json {
        json!({"$ref": format!("#{HOME}{}", pointer.replace('%', "%25"))})
    }

    /// A schema as the crate is given it. Errors name places in the tool's own schema.
    pub fn checked(schema: &Json, budget: &Budget) -> Result<Json, Error> {
        budget.copy(schema)?;
        checked_schema(schema, budget).map_err(|mut error| {
            if let Some(Place::Pointer(pointer)) = &mut error.place {
                if let Some(own) = pointer.strip_prefix(HOME) {
                    *pointer = own.into();
                }
            }
            error
        })
    }

    /// The parameters in their order.
    pub fn fields(&self) -> Result<Vec<Field>, Error> {
        Self::checked(&self.whole(), self.budget)?;
        let (mut fields, mut known) = (Vec::new(), HashMap::new());
        self.gather("", DEPTH, &mut fields, &mut known)?;
        Ok(fields)
    }

    fn gather(
        &self,
        pointer: &str,
        depth: usize,
        fields: &mut Vec<Field>,
        known: &mut HashMap<String, usize>,
    ) -> Result<(), Error> {
        let Some(Json::Object(entries)) = self.look(pointer, depth)? else {
            return Ok(());
        };
        if let Some(key) = OF_ALL.into_iter().find(|key| entries.contains_key(*key)) {
            return Err(unsupported(
                &below(pointer, key),
                format!("`{key}` is not enforced where a model writes each argument by itself"),
            ));
        }
        if let Some(reference) = entries.get("$ref") {
            self.gather(&target(pointer, reference)?, depth - 1, fields, known)?;
        }
        if let Some(Json::Array(all)) = entries.get("allOf") {
            for i in 0..all.len() {
                self.gather(&format!("{pointer}/allOf/{i}"), depth - 1, fields, known)?;
            }
        }
        let mut number_of = |name: &str, fields: &mut Vec<Field>| {
            *known.entry(name.to_string()).or_insert_with(|| {
                fields.push(Field {
                    name: name.into(),
                    must: false,
                    pointers: Vec::new(),
                });
                fields.len() - 1
            })
        };
        if let Some(Json::Object(properties)) = entries.get("properties") {
            let here = below(pointer, "properties");
            for name in properties.keys() {
                let number = number_of(name, fields);
                fields[number].pointers.push(below(&here, name));
            }
        }
        if let Some(Json::Array(names)) = entries.get("required") {
            for name in names.iter().filter_map(Json::as_str) {
                let number = number_of(name, fields);
                fields[number].must = true;
            }
        }
        Ok(())
    }

    fn look(&self, pointer: &str, depth: usize) -> Result<Option<&Json>, Error> {
        self.budget.spend(100 + pointer.len() / 4)?;
        match depth {
            0 => Err(unsupported(
                pointer,
                "the references of this schema are nested too deep".into(),
            )),
            _ => Ok(self.schema.pointer(pointer)),
        }
    }

    /// The ways to write a value between tags: a text as it is, everything else as JSON.
    pub fn values(&self, field: &Field) -> Result<Vec<Value>, Error> {
        let parts = self.parts_of(field)?;
        let Some(parts) = parts else {
            return Ok(vec![Value::Json(self.all_of(field))]);
        };
        let mut values = Vec::new();
        for part in &parts {
            if let Some(constants) = constants(part.entries) {
                let written = constants.iter().map(|one| match one.as_str() {
                    Some(text) => Value::Constant(text.into()),
                    None => Value::Constant(one.to_string()),
                });
                values.extend(written);
                continue;
            }
            let types = types(part.entries);
            let is_text = match &types {
                Some(types) => types.contains(&"string"),
                None => !part.entries.keys().any(|key| is_of_others(key)),
            };
            if !is_text {
                values.push(Value::Json(self.with(self.at(&part.pointer))));
                continue;
            }
            if let Some(key) = COMBINE.iter().find(|key| part.entries.contains_key(**key)) {
                return Err(unsupported(
                    &below(&part.pointer, key),
                    format!(
                        "`{key}` beside other keywords is not enforced in arguments without quotes"
                    ),
                ));
            }
            let schema = Json::Object(part.entries.clone());
            let rules = text_expressions(&schema, &part.pointer, self.budget)?;
            values.push(Value::Text(rules));
            let others: Vec<&str> = (types.into_iter().flatten())
                .filter(|name| *name != "string")
                .collect();
            if !others.is_empty() {
                values.push(Value::Json(self.with_types(&part.pointer, &others)));
            }
        }
        Ok(values)
    }

    /// The ways to write a value in Python, which writes constants differently from JSON.
    pub fn python_values(&self, field: &Field) -> Result<Vec<Value>, Error> {
        let Some(parts) = self.parts_of(field)? else {
            return Ok(vec![Value::Json(self.all_of(field))]);
        };
        let mut values = Vec::new();
        for part in &parts {
            if let Some(constants) = constants(part.entries) {
                values.extend(constants.iter().map(|one| Value::Constant(in_python(one))));
                continue;
            }
            let Some(types) = types(part.entries) else {
                values.push(Value::Json(self.with(self.at(&part.pointer))));
                continue;
            };
            for (name, words) in [("boolean", &["True", "False"][..]), ("null", &["None"][..])] {
                if types.contains(&name) {
                    values.extend(words.iter().map(|word| Value::Constant((*word).into())));
                }
            }
            let others: Vec<&str> = (types.into_iter())
                .filter(|name| !["boolean", "null"].contains(name))
                .collect();
            if !others.is_empty() {
                values.push(Value::Json(self.with_types(&part.pointer, &others)));
            }
        }
        Ok(values)
    }

    fn with_types(&self, pointer: &str, types: &[&str]) -> Json {
        let mut schema = self.at(pointer);
        schema["type"] = json!(types);
        self.with(schema)
    }

    fn all_of(&self, field: &Field) -> Json {
        let all: Vec<Json> = field.pointers.iter().map(|at| self.at(at)).collect();
        self.with(json!({ "allOf": all }))
    }

    /// The independent parts of a parameter's schema. None if several schemas must hold together.
    fn parts_of(&self, field: &Field) -> Result<Option<Vec<Part<'_>>>, Error> {
        let mut parts = Vec::new();
        match &field.pointers[..] {
            [] => parts.push(Part {
                pointer: String::new(),
                entries: &ANY,
            }),
            [one] => self.add_parts(one, DEPTH, &mut parts)?,
            _ => return Ok(None),
        }
        Ok(Some(parts))
    }

    fn add_parts<'b>(
        &'b self,
        pointer: &str,
        depth: usize,
        parts: &mut Vec<Part<'b>>,
    ) -> Result<(), Error> {
        let entries = match self.look(pointer, depth)? {
            Some(Json::Object(entries)) => entries,
            Some(Json::Bool(true)) => &ANY,
            _ => return Ok(()), // the check has refused everything but `false`
        };
        let mut said = entries.iter().filter(|(key, _)| !is_note(key));
        match (said.next(), said.next()) {
            (Some((key, reference)), None) if key == "$ref" => {
                return self.add_parts(&target(pointer, reference)?, depth - 1, parts);
            }
            (Some((key, Json::Array(all))), None)
                if key == "anyOf" || key == "oneOf" || key == "allOf" && all.len() == 1 =>
            {
                for i in 0..all.len() {
                    self.add_parts(&format!("{pointer}/{key}/{i}"), depth - 1, parts)?;
                }
                return Ok(());
            }
            _ => {}
        }
        parts.push(Part {
            pointer: pointer.into(),
            entries,
        });
        Ok(())
    }
}

/// The schema with references that lead into `HOME`, where it will be.
fn moved(schema: &Json, own_id: &str) -> Json {
    const MAPS: [&str; 6] = [
        "properties",
        "patternProperties",
        "$defs",
        "definitions",
        "dependentSchemas",
        "dependencies",
    ];
    let of_map = |all: &Map<String, Json>| {
        let each = all
            .iter()
            .map(|(key, one)| (key.clone(), moved(one, own_id)));
        Json::Object(each.collect())
    };
    match schema {
        Json::Object(entries) => {
            let each = entries.iter().map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("$ref", Json::String(text)) => Json::String(moved_reference(text, own_id)),
                    ("const" | "enum" | "default" | "examples", value) => value.clone(),
                    (key, Json::Object(all)) if MAPS.contains(&key) => of_map(all),
                    (_, value) => moved(value, own_id),
                };
                (key.clone(), value)
            });
            Json::Object(each.collect())
        }
        Json::Array(items) => items.iter().map(|one| moved(one, own_id)).collect(),
        other => other.clone(),
    }
}

fn moved_reference(text: &str, own_id: &str) -> String {
    let own = text.strip_prefix(own_id).unwrap_or(text);
    match own.strip_prefix('#').unwrap_or(own) {
        pointer if pointer.is_empty() || own.starts_with("#/") => format!("#{HOME}{pointer}"),
        _ => text.into(), // an anchor, or another document
    }
}

/// The pointer that a reference leads to.
fn target(pointer: &str, reference: &Json) -> Result<String, Error> {
    let text = reference.as_str().and_then(|text| text.strip_prefix('#'));
    match text.and_then(|text| text.strip_prefix(HOME)) {
        Some(target) if !target.contains('%') => Ok(target.into()),
        _ => Err(unsupported(
            &below(pointer, "$ref"),
            format!("`$ref` to {reference} is not followed where a model writes each argument by itself; refer by a plain pointer"),
        )),
    }
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn unsupported(pointer: &str, text: String) -> Error {
    Error::new(ErrorKind::Unsupported, text).at(Place::Pointer(pointer.into()))
}

fn constants(entries: &Map<String, Json>) -> Option<Vec<Json>> {
    match (entries.get("const"), entries.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Json::Array(values))) => Some(values.clone()),
        _ => None,
    }
}

fn types(entries: &Map<String, Json>) -> Option<Vec<&str>> {
    match entries.get("type")? {
        Json::String(name) => Some(vec![name]),
        Json::Array(names) => Some(names.iter().filter_map(Json::as_str).collect()),
        _ => None,
    }
}

/// Whether a keyword says nothing about values.
fn is_note(key: &str) -> bool {
    const NOTES: [&str; 10] = [
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$defs",
        "definitions",
    ];
    NOTES.contains(&key) || key.starts_with("x-")
}

/// Whether a keyword speaks of values that are no strings.
fn is_of_others(key: &str) -> bool {
    !is_note(key) && !["minLength", "maxLength", "pattern", "format"].contains(&key)
}

fn in_python(value: &Json) -> String {
    match value {
        Json::Bool(true) => "True".into(),
        Json::Bool(false) => "False".into(),
        Json::Null => "None".into(),
        other => other.to_string(),
    }
}
