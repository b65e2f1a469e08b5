//! The input items of a stored response, page by page.

use crate::api_error::ApiError;
use serde_json::{json, Value};

type Parsed<T> = std::result::Result<T, ApiError>;

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// One page of the items that the response `id` answers. The query may have `limit`, `order` and `after`.
pub fn page(id: &str, items: Vec<Value>, query: &str) -> Parsed<Value> {
    let (mut limit, mut newest_first, mut after) = (DEFAULT_LIMIT, true, None);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match (name, value) {
            ("limit", _) => {
                let asked = value.parse().ok();
                let in_range = asked.filter(|asked| (1..=MAX_LIMIT).contains(asked));
                limit = in_range.ok_or_else(|| {
                    let text = format!(
                        "'limit' must be a whole number from 1 to {MAX_LIMIT}, not {value}"
                    );
                    ApiError::invalid("limit", text)
                })?;
            }
            ("order", "asc" | "desc") => newest_first = value == "desc",
            ("order", _) => {
                let text = format!("'order' must be asc or desc, not {value}");
                return Err(ApiError::invalid("order", text));
            }
            ("after", _) => after = Some(value),
            _ => {} // `include` changes nothing: the items are stored as they came
        }
    }
    let mut items = identified(id, items);
    if newest_first {
        items.reverse();
    }
    if let Some(after) = after {
        let place = items.iter().position(|item| item["id"] == after);
        let Some(place) = place else {
            let text = format!("'after' names no item of this response: {after}");
            return Err(ApiError::invalid("after", text));
        };
        items.drain(..=place);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id_of = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    Ok(json!({
        "object": "list",
        "first_id": id_of(items.first()),
        "last_id": id_of(items.last()),
        "has_more": has_more,
        "data": items,
    }))
}

/// The items that the response `id` answers, each with an id.
pub fn identified(id: &str, items: Vec<Value>) -> Vec<Value> {
    let items = items.into_iter().enumerate();
    items.map(|(at, item)| with_id(item, id, at)).collect()
}

/// An item as the API shows it. One that came without an id gets the same one each time.
fn with_id(mut item: Value, response: &str, at: usize) -> Value {
    let kind = item["type"].as_str().unwrap_or("message").to_string();
    let Some(fields) = item.as_object_mut() else {
        return item;
    };
    let response = response.trim_start_matches("resp_");
    let prefix = match kind.as_str() {
        "message" => "msg",
        "function_call" => "fc",
        "function_call_output" => "fco",
        _ => "item",
    };
    let id = fields.entry("id").or_insert(Value::Null);
    if !id.is_string() {
        *id = format!("{prefix}_{response}_in{at}").into();
    }
    fields.insert("type".into(), kind.as_str().into());
    fields.entry("status").or_insert("completed".into());
    if kind == "message" {
        let part = match fields.get("role").and_then(Value::as_str) {
            Some("assistant") => "output_text",
            _ => "input_text",
        };
        let content = fields.entry("content").or_insert(Value::Null);
        if let Value::String(text) = content {
            let mut whole = json!({ "type": part, "text": text });
            if part == "output_text" {
                whole["annotations"] = json!([]);
            }
            *content = json!([whole]);
        }
    }
    item
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(count: usize) -> Vec<Value> {
        let one = |at| json!({ "role": "user", "content": format!("text {at}") });
        (0..count).map(one).collect()
    }

    fn texts(page: &Value) -> Vec<&str> {
        let data = page["data"].as_array().unwrap();
        data.iter()
            .map(|item| item["content"][0]["text"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn pages_follow_one_another() {
        let first = page("resp_1", items(5), "limit=2&order=asc").unwrap();
        assert_eq!(texts(&first), ["text 0", "text 1"]);
        assert_eq!(first["has_more"], true);
        let after = first["last_id"].as_str().unwrap();
        let query = format!("limit=9&order=asc&after={after}");
        let rest = page("resp_1", items(5), &query).unwrap();
        assert_eq!(texts(&rest), ["text 2", "text 3", "text 4"]);
        assert_eq!(rest["has_more"], false);
        let newest = page("resp_1", items(30), "").unwrap();
        assert_eq!(newest["data"].as_array().unwrap().len(), DEFAULT_LIMIT);
        assert_eq!(texts(&newest)[0], "text 29");
    }

    #[test]
    fn bad_queries() {
        for (query, param) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("order=up", "order"),
            ("after=x", "after"),
        ] {
            let error = page("resp_1", items(2), query).unwrap_err();
            assert_eq!(error.json()["error"]["param"], param);
        }
    }
}
