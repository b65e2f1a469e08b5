//! The schema of all values that a schema does not allow, where keywords can say it exactly.
use super::rewritten::mentions;
use super::{below, is_annotation, unsupported};
use crate::grammar::{Budget, Error};
use serde_json::{json, Value as Json};
use std::cell::Cell;
use std::collections::{BTreeSet, HashSet};

const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
/// Schemas that are looked at for one `not` or `if`, and how deep references are followed.
const STEPS: u32 = 2_000;
const DEPTH: usize = 32;
/// Characters of all texts that a text must not be.
const CHARACTERS: usize = 2_000;

pub struct Negation<'a> {
    /// Where references lead. What its keywords say was not added to it.
    root: &'a Json,
    left: Cell<u32>,
    budget: &'a Budget,
}

impl<'a> Negation<'a> {
    pub fn new(root: &'a Json, budget: &'a Budget) -> Self {
        Negation {
            root,
            left: Cell::new(STEPS),
            budget,
        }
    }

    pub fn of(&self, schema: &Json, pointer: &str) -> Result<Json, Error> {
        self.at(schema, pointer, DEPTH)
    }

    /// A value is not allowed if one of the keywords forbids it.
    fn at(&self, schema: &Json, pointer: &str, depth: usize) -> Result<Json, Error> {
        let entries = match schema {
            Json::Bool(all) => return Ok(json!(!all)),
            Json::Object(entries) => entries,
            _ => return Ok(json!(true)), // the walk refuses it
        };
        let left = self.left.get();
        if left == 0 || depth == 0 {
            return Err(unsupported(pointer, "this is too long to be negated"));
        }
        self.left.set(left - 1);
        let mut options = Vec::new();
        for (key, value) in entries {
            if is_annotation(key) || key == "$defs" || key == "definitions" {
                continue;
            }
            self.budget.spend(50 + (pointer.len() + key.len()) / 16)?;
            let here = below(pointer, key);
            let refused = || {
                unsupported(
                    &here,
                    format!("`not` and `if` are not enforced with `{key}` in them"),
                )
            };
            match (key.as_str(), value) {
                ("type", _) => options.push(other_types(value).ok_or_else(refused)?),
                ("const", _) => {
                    self.spend_values(std::slice::from_ref(value))?;
                    options.push(other_values(std::slice::from_ref(value)).ok_or_else(refused)?)
                }
                ("enum", Json::Array(values)) => {
                    self.spend_values(values)?;
                    options.push(other_values(values).ok_or_else(refused)?)
                }
                ("minimum", Json::Number(n)) => {
                    options.push(json!({"type": "number", "exclusiveMaximum": n}))
                }
                ("maximum", Json::Number(n)) => {
                    options.push(json!({"type": "number", "exclusiveMinimum": n}))
                }
                ("exclusiveMinimum", Json::Number(n)) => {
                    options.push(json!({"type": "number", "maximum": n}))
                }
                ("exclusiveMaximum", Json::Number(n)) => {
                    options.push(json!({"type": "number", "minimum": n}))
                }
                ("minLength" | "minItems" | "minProperties", _) => {
                    let least = value.as_u64().ok_or_else(refused)?;
                    if least > 0 {
                        let most = key.replace("min", "max");
                        options.push(json!({"type": counted(key), most: least - 1}));
                    }
                }
                ("maxLength" | "maxItems" | "maxProperties", _) => {
                    let most = value.as_u64().ok_or_else(refused)?;
                    let least = key.replace("max", "min");
                    options.push(json!({"type": counted(key), least: most + 1}));
                }
                ("required", Json::Array(names)) => {
                    self.budget.spend(100 * names.len())?;
                    let properties = entries.get("properties");
                    let names = names.iter().filter_map(Json::as_str);
                    for name in
                        names.filter(|name| properties.is_none_or(|all| all.get(name).is_none()))
                    {
                        options.push(json!({"type": "object", "properties": {name: false}}));
                    }
                }
                ("properties", Json::Object(all)) => {
                    let required = entries.get("required").and_then(Json::as_array);
                    let required: HashSet<&str> =
                        (required.into_iter().flatten().filter_map(Json::as_str)).collect();
                    for (name, one) in all {
                        self.budget.spend(50 + (here.len() + 2 * name.len()) / 16)?;
                        let other = self.at(one, &below(&here, name), depth - 1)?;
                        // One option, and not two, for a property that must be there: options of several conditions
                        // multiply.
                        if required.contains(name.as_str()) {
                            options.push(json!({"type": "object", "properties": {name: other}}));
                        } else if other != json!(false) {
                            options.push(json!({
                                "type": "object",
                                "properties": {name: other},
                                "required": [name],
                            }));
                        }
                    }
                }
                ("allOf", Json::Array(all)) => {
                    for (i, one) in all.iter().enumerate() {
                        options.push(self.at(one, &format!("{here}/{i}"), depth - 1)?);
                    }
                }
                ("anyOf", Json::Array(all)) => {
                    let others = all.iter().enumerate();
                    let others: Result<Vec<Json>, Error> = others
                        .map(|(i, one)| self.at(one, &format!("{here}/{i}"), depth - 1))
                        .collect();
                    options.push(json!({"allOf": others?}));
                }
                // The meaning of these keywords was added to `allOf`.
                ("not" | "if" | "then" | "else" | "dependentRequired", _) => {}
                ("$ref", Json::String(text)) => {
                    let target = text.strip_prefix('#').and_then(|at| self.root.pointer(at));
                    target.map_or(Ok(()), |target| self.budget.copy(target))?; // all of it is looked at
                    let target = target
                        .filter(|target| !mentions(target))
                        .ok_or_else(refused)?;
                    options.push(self.at(target, &here, depth - 1)?);
                }
                _ => return Err(refused()),
            }
        }
        options.retain(|option| *option != json!(false));
        Ok(match options.len() {
            0 => json!(false),
            1 => options.swap_remove(0),
            _ => json!({"anyOf": options}),
        })
    }
}

impl Negation<'_> {
    /// Takes the cost of `other_values`, which writes each text once for each of its characters.
    fn spend_values(&self, values: &[Json]) -> Result<(), Error> {
        let texts = values.iter().filter_map(Json::as_str);
        let (all, longest) = texts.fold((0, 0), |(all, longest), text| {
            (all + text.len(), text.len().max(longest))
        });
        let written = all.min(CHARACTERS) * longest.min(CHARACTERS);
        self.budget.spend(100 * values.len() + all + written / 10)
    }
}

fn counted(key: &str) -> &'static str {
    match &key[3..] {
        "Length" => "string",
        "Items" => "array",
        _ => "object",
    }
}

/// The other types; None if these are numbers that are no integers.
fn other_types(value: &Json) -> Option<Json> {
    let names: Vec<&str> = match value {
        Json::String(name) => vec![name],
        Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
        _ => return None,
    };
    if names.contains(&"integer") && !names.contains(&"number") {
        return None;
    }
    let others: Vec<&str> = TYPES.into_iter().filter(|t| !names.contains(t)).collect();
    Some(match others.len() {
        0 => json!(false),
        _ => json!({"type": others}),
    })
}

/// All values but these; None if an array, an object or an escaped character is
/// among them, or too much text.
fn other_values(values: &[Json]) -> Option<Json> {
    let mut options = vec![json!({"type": ["array", "object"]})];
    let mut numbers: Vec<&Json> = Vec::new();
    let mut texts: BTreeSet<Vec<char>> = BTreeSet::new();
    for value in values {
        match value {
            Json::Array(_) | Json::Object(_) => return None,
            Json::Number(_) => numbers.push(value),
            // A character that JSON has to escape is more than one character to an expression.
            Json::String(text) if text.chars().any(|c| c == '"' || c == '\\' || c < ' ') => {
                return None;
            }
            Json::String(text) => {
                texts.insert(text.chars().collect());
            }
            Json::Null | Json::Bool(_) => {}
        }
    }
    if texts.iter().map(Vec::len).sum::<usize>() > CHARACTERS {
        return None;
    }
    for constant in [json!(null), json!(true), json!(false)] {
        if !values.contains(&constant) {
            options.push(json!({"const": constant}));
        }
    }
    let texts: Vec<&[char]> = texts.iter().map(Vec::as_slice).collect();
    options.push(match texts.is_empty() {
        true => json!({"type": "string"}),
        false => json!({"type": "string", "pattern": format!("^{}$", other_texts(&texts))}),
    });
    let order = |a: &&Json, b: &&Json| {
        let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
        a.total_cmp(&b)
    };
    numbers.sort_by(order);
    numbers.dedup_by(|a, b| a.as_f64() == b.as_f64());
    let mut below: Option<&Json> = None;
    for above in numbers.into_iter().map(Some).chain([None]) {
        let mut range = json!({"type": "number"});
        if let Some(below) = below {
            range["exclusiveMinimum"] = below.clone();
        }
        if let Some(above) = above {
            range["exclusiveMaximum"] = above.clone();
        }
        options.push(range);
        below = above;
    }
    Some(json!({"anyOf": options}))
}

/// A regular expression of every text but these, which are sorted and different.
fn other_texts(texts: &[&[char]]) -> String {
    let (ends, longer) = match texts.first() {
        Some([]) => (true, &texts[1..]),
        _ => (false, texts),
    };
    let mut options = Vec::new();
    if !ends {
        options.push(String::new());
    }
    let mut firsts = String::new();
    for group in longer.chunk_by(|a, b| a[0] == b[0]) {
        let first = format!("\\u{{{:x}}}", u32::from(group[0][0]));
        let rests: Vec<&[char]> = group.iter().map(|text| &text[1..]).collect();
        options.push(format!("{first}{}", other_texts(&rests)));
        firsts += &first;
    }
    options.push(match firsts.is_empty() {
        true => "[\\s\\S]+".into(),
        false => format!("[^{firsts}][\\s\\S]*"),
    });
    format!("(?:{})", options.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_but_some() {
        let texts = |all: &[&str]| -> String {
            let all: BTreeSet<Vec<char>> = all.iter().map(|text| text.chars().collect()).collect();
            other_texts(&all.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        assert_eq!(texts(&[""]), "(?:[\\s\\S]+)");
        assert_eq!(
            texts(&["a"]),
            "(?:|\\u{61}(?:[\\s\\S]+)|[^\\u{61}][\\s\\S]*)"
        );
    }
}
