//! The conversation of a request to `/v1/responses`, translated to messages of `/v1/chat/completions`.

use super::input_items::identified;
use super::{Fields, Parsed};
use crate::api_error::ApiError;
use crate::chat;
use crate::store;
use serde_json::{json, Value};

/// The input as items, after those of the responses before it. Returns also where each comes from.
pub(super) fn items(fields: &Fields) -> Parsed<(Vec<Value>, Vec<String>)> {
    let mut all = match fields.get("previous_response_id") {
        None | Some(Value::Null) => Vec::new(),
        Some(id) => before(id)?,
    };
    let mut places = vec!["previous_response_id".to_string(); all.len()];
    match fields.get("input") {
        Some(Value::String(text)) => {
            all.push(json!({ "role": "user", "content": text }));
            places.push("input".into());
        }
        Some(Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                let place = format!("input[{index}]");
                match reference(item) {
                    None => all.push(item.clone()),
                    Some(id) if all.iter().any(|item| item["id"] == *id) => continue, // it is there
                    Some(id) => all.push(stored_item(id, &place)?),
                }
                places.push(place);
            }
        }
        _ => {
            let text = "'input' must be a text or a list of items";
            return Err(ApiError::invalid("input", text));
        }
    }
    Ok((all, places))
}

/// The items of a stored response: what it answered, and what it said.
fn before(id: &Value) -> Parsed<Vec<Value>> {
    let name = "previous_response_id";
    if !store::has_room() {
        let hint = "this server stores no responses, because its config turns /data off; send \
                    the whole conversation as 'input'";
        return Err(ApiError::unsupported(name, hint));
    }
    let Some(found) = id.as_str().and_then(store::find) else {
        let text = format!("Previous response with id {id} not found.");
        return Err(ApiError::invalid(name, text).with_code("previous_response_not_found"));
    };
    let mut items = found.items;
    let said = found.response["output"].as_array();
    items.extend(said.into_iter().flatten().cloned());
    Ok(items)
}

/// The id of the item that this one stands for, if it is a reference. References need not have a type.
fn reference(item: &Value) -> Option<&Value> {
    match item["type"].as_str() {
        Some("item_reference") => Some(&item["id"]),
        None if item["role"].is_null() && item["id"].is_string() => Some(&item["id"]),
        _ => None,
    }
}

/// An item of a stored response: one that it answered, or one that it said. Ids of items tell which response that is.
fn stored_item(id: &Value, place: &str) -> Parsed<Value> {
    let made = id.as_str().and_then(|id| id.split('_').nth(1));
    let response = made.map(|instance| format!("resp_{instance}"));
    let found = response.and_then(|response| {
        let stored = store::find(&response)?;
        let said = stored.response["output"].as_array().cloned();
        let mut all = identified(&response, stored.items);
        all.extend(said.into_iter().flatten());
        all.into_iter().find(|item| item["id"] == *id)
    });
    found.ok_or_else(|| {
        let text = format!(
            "Item with id {id} not found. Items of stored responses can be referred to; send \
             other items themselves"
        );
        let mut error = ApiError::invalid(place, text);
        error.status = 404;
        error
    })
}

/// Translates the items to messages. Returns also where the first item of each message comes from.
pub(super) fn messages(
    fields: &Fields,
    items: &[Value],
    of_items: &[String],
) -> Parsed<(Value, Vec<String>)> {
    let (mut all, mut places) = (Vec::new(), Vec::new());
    match fields.get("instructions") {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) => all.push(json!({ "role": "system", "content": text })),
        Some(_) => return Err(ApiError::invalid("instructions", "must be a text")),
    }
    places.resize(all.len(), "instructions".to_string());
    for (item, place) in items.iter().zip(of_items) {
        add(&mut all, item, place)?;
        places.resize(all.len(), place.clone());
    }
    Ok((Value::Array(all), places))
}

fn add(all: &mut Vec<Value>, item: &Value, place: &str) -> Parsed<()> {
    match item["type"].as_str() {
        None | Some("message") => {
            all.push(json!({ "role": item["role"], "content": text_of(&item["content"], place)? }));
        }
        Some("function_call") => {
            let call = json!({
                "id": item["call_id"],
                "type": "function",
                "function": { "name": item["name"], "arguments": item["arguments"] },
            });
            // Calls that follow one another form one turn, together with the text before them.
            let before = all
                .last_mut()
                .filter(|message| message["role"] == "assistant");
            match before.map(|message| &mut message["tool_calls"]) {
                Some(Value::Array(calls)) => calls.push(call),
                Some(none) => *none = json!([call]),
                None => {
                    all.push(json!({ "role": "assistant", "content": "", "tool_calls": [call] }))
                }
            }
        }
        Some("function_call_output") => {
            let said = text_of(&item["output"], place)?;
            let id = &item["call_id"];
            if !all.iter().rev().any(|message| calls(message, id)) {
                let text = format!("no function call before this output has the call_id {id}");
                return Err(ApiError::invalid(&format!("{place}.call_id"), text));
            }
            all.push(json!({ "role": "tool", "tool_call_id": id, "content": said }));
        }
        Some("reasoning") => {}
        Some(kind) => {
            let text = format!("an item of the type {kind} is not served");
            return Err(ApiError::invalid(place, text));
        }
    }
    Ok(())
}

/// Whether a message has the call of this id.
fn calls(message: &Value, id: &Value) -> bool {
    let calls = message["tool_calls"].as_array();
    calls.is_some_and(|calls| calls.iter().any(|call| call["id"] == *id))
}

/// A text, or a list of parts that are texts.
fn text_of(content: &Value, place: &str) -> Parsed<String> {
    const KINDS: &[(&str, &str)] = &[
        ("input_text", "text"),
        ("output_text", "text"),
        ("text", "text"),
        ("refusal", "refusal"),
    ];
    chat::join_parts(content, KINDS, place)
}
