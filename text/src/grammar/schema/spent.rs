//! `patternProperties` that match no name beside those of `properties` and `required`. The crate would let a model write a
//! comma for another name, and then know none. What such a pattern says is said of the names instead.
use super::patterns;
use crate::grammar::{Budget, Error};
use serde_json::{json, Map, Value as Json};

/// Whether one of several schemas has to fit a value now.
pub fn moved_to_names(schema: &mut Map<String, Json>, budget: &Budget) -> Result<bool, Error> {
    let Some(Json::Object(patterns)) = schema.get("patternProperties").cloned() else {
        return Ok(false);
    };
    let mut names: Vec<String> = match schema.get("properties") {
        Some(Json::Object(all)) => all.keys().cloned().collect(),
        _ => Vec::new(),
    };
    if let Some(Json::Array(required)) = schema.get("required") {
        names.extend(required.iter().filter_map(Json::as_str).map(String::from));
    }
    let mut combined = false;
    for (pattern, one) in &patterns {
        let length: usize = names.iter().map(String::len).sum();
        budget.spend(patterns::PAIR + 20 * (pattern.len() + length))?;
        let Some(matched) = patterns::only_names(pattern, &names) else {
            continue;
        };
        let all = schema.entry("properties").or_insert_with(|| json!({}));
        for name in matched {
            budget.copy(one)?;
            let both = match all.get(&name) {
                Some(own) => {
                    combined = true;
                    json!({"allOf": [own, one]})
                }
                None => one.clone(),
            };
            all[name] = both;
        }
        if let Some(Json::Object(left)) = schema.get_mut("patternProperties") {
            left.shift_remove(pattern);
        }
    }
    if schema.get("patternProperties") == Some(&json!({})) {
        schema.shift_remove("patternProperties");
    }
    Ok(combined)
}
