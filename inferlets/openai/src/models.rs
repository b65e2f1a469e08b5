//! `/v1/models`: the models of the config, and the adapters of the user, which are models with changes.

use crate::api_error::ApiError;
use inferlet::adapter::Adapter;
use inferlet::model::Model;
use inferlet::runtime;
use serde_json::{json, Value};

type Parsed<T> = std::result::Result<T, ApiError>;

struct Named {
    name: String,
    /// The model that an adapter changes. None: it is a model itself.
    parent: Option<String>,
}

/// All names that a request may give as its model. A name that comes twice means the first one.
fn names() -> Parsed<Vec<Named>> {
    let models = runtime::models();
    let of_model = |name: &String| Named {
        name: name.clone(),
        parent: None,
    };
    let mut all: Vec<Named> = models.iter().map(of_model).collect();
    for parent in &models {
        let model = Model::load(parent).map_err(ApiError::engine)?;
        for name in Adapter::names(&model).map_err(ApiError::engine)? {
            if all.iter().all(|other| other.name != name) {
                all.push(Named {
                    name,
                    parent: Some(parent.clone()),
                });
            }
        }
    }
    Ok(all)
}

pub fn list(anthropic: bool) -> Parsed<Value> {
    let names = names()?;
    let data: Vec<Value> = names.iter().map(|named| json(named, anthropic)).collect();
    if !anthropic {
        return Ok(json!({ "object": "list", "data": data }));
    }
    let id = |named: Option<&Named>| named.map(|named| named.name.clone());
    Ok(json!({
        "data": data, "has_more": false, "first_id": id(names.first()), "last_id": id(names.last()),
    }))
}

/// One of them, by its name as a part of a path.
pub fn one(part: &str, anthropic: bool) -> Parsed<Value> {
    let name = decoded(part);
    match names()?.iter().find(|named| named.name == name) {
        Some(named) => Ok(json(named, anthropic)),
        None => Err(ApiError::unknown_model(&name)),
    }
}

fn json(named: &Named, anthropic: bool) -> Value {
    let name = &named.name;
    if anthropic {
        let created = "1970-01-01T00:00:00Z";
        return json!({
            "id": name, "type": "model", "display_name": name, "created_at": created,
            "lifecycle": "active",
        });
    }
    let mut model = json!({ "id": name, "object": "model", "created": 0, "owned_by": "pie" });
    if let Some(parent) = &named.parent {
        model["owned_by"] = json!(runtime::username());
        model["parent"] = json!(parent);
    }
    model
}

/// The text that a part of a path stands for: `a%2Fb` is `a/b`.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths_are_decoded() {
        assert_eq!(decoded("org%2Fmodel"), "org/model");
        assert_eq!(decoded("50%"), "50%");
        assert_eq!(decoded("%zz%C3%A9"), "%zz\u{e9}");
    }
}
