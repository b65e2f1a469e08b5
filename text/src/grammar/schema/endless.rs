//! Schemas whose documents would have to contain themselves, such as an object that requires a property of its own kind.
use crate::grammar::{Budget, Error};
use serde_json::Value as Json;
use std::collections::HashSet;

/// A schema that references lead to (`#` is the root) and that no finite document fits.
pub fn find(made: &Json, budget: &Budget) -> Result<Option<String>, Error> {
    let mut all: Vec<(String, &Json)> = vec![("#".into(), made)];
    if let Some(Json::Object(definitions)) = made.get("$defs") {
        all.extend(
            definitions
                .iter()
                .map(|(name, schema)| (format!("#/$defs/{name}"), schema)),
        );
    }
    // First finds the schemas that end without another one, then those that end with the help of these, and so on.
    let mut ending: HashSet<&str> = HashSet::new();
    loop {
        let before = ending.len();
        // Definitions mostly lead to later ones.
        for (name, schema) in all.iter().rev() {
            if !ending.contains(name.as_str()) && ends(schema, &ending, budget) {
                ending.insert(name);
            }
        }
        budget.check()?;
        if ending.len() == all.len() {
            return Ok(None);
        }
        if ending.len() == before {
            let endless = all.iter().find(|(name, _)| !ending.contains(name.as_str()));
            return Ok(endless.map(|(name, _)| name.clone()));
        }
    }
}

/// Whether a finite document may fit, as far as that is known yet.
fn ends(schema: &Json, ending: &HashSet<&str>, budget: &Budget) -> bool {
    if !budget.take(20) {
        return false;
    }
    let list = |key: &str| schema.get(key).and_then(Json::as_array);
    let reference = schema.get("$ref").and_then(Json::as_str);
    if reference.is_some_and(|target| !ending.contains(target))
        || list("allOf").is_some_and(|all| !all.iter().all(|one| ends(one, ending, budget)))
        || list("anyOf").is_some_and(|options| !options.iter().any(|one| ends(one, ending, budget)))
    {
        return false;
    }
    match schema.get("type").and_then(Json::as_str) {
        Some("object") => list("required").is_none_or(|names| {
            names.iter().filter_map(Json::as_str).all(|name| {
                let property = schema.get("properties").and_then(|all| all.get(name));
                let other = schema.get("additionalProperties");
                let other = other.filter(|_| schema.get("patternProperties").is_none());
                property
                    .or(other)
                    .is_none_or(|one| ends(one, ending, budget))
            })
        }),
        Some("array") => {
            let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0) as usize;
            let first = list("prefixItems").map_or(&[][..], Vec::as_slice);
            let rest = schema.get("items").filter(|_| least > first.len());
            (first.iter().take(least).chain(rest)).all(|one| ends(one, ending, budget))
        }
        _ => true,
    }
}
