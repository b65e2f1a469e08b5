//! Stored responses: files in the user's folder `/data`, unless the config turns such folders off.
//! The oldest ones are deleted when there are too many.

use serde_json::{json, Value};
use std::fs;
use std::time::SystemTime;

const FOLDER: &str = "/data/openai-responses";
const MAX_RESPONSES: usize = 1000;
/// A longer response is not stored.
const MAX_BYTES: usize = 4 << 20;

/// A response, and the items that it answers: those of the responses before it too.
pub struct Stored {
    pub response: Value,
    pub items: Vec<Value>,
}

/// Whether the user has a folder for responses.
pub fn has_room() -> bool {
    fs::create_dir_all(FOLDER).is_ok()
}

/// Ids are names of files, so only those that this inferlet makes are looked up.
fn path_of(id: &str) -> Option<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let known = id.starts_with("resp_") && id.len() <= 128 && id.bytes().all(is_plain);
    known.then(|| format!("{FOLDER}/{id}.json"))
}

/// Stores a response under its id. Returns whether it is stored: `/data` may be full.
pub fn keep(response: &Value, items: &[Value]) -> bool {
    let path = response["id"].as_str().and_then(path_of);
    let text = json!({ "response": response, "items": items }).to_string();
    match path {
        Some(path) if text.len() <= MAX_BYTES => {
            forget_oldest();
            let written = fs::write(&path, text).is_ok();
            if !written {
                let _ = fs::remove_file(&path); // a part of it is of no use
            }
            written
        }
        _ => false,
    }
}

pub fn find(id: &str) -> Option<Stored> {
    let text = fs::read(path_of(id)?).ok()?;
    // A file that is being written is not whole yet.
    let mut stored: Value = serde_json::from_slice(&text).ok()?;
    let items = stored["items"].as_array().cloned()?;
    let response = stored["response"].take();
    Some(Stored { response, items })
}

/// Returns whether there was such a response.
pub fn delete(id: &str) -> bool {
    path_of(id).is_some_and(|path| fs::remove_file(path).is_ok())
}

/// Makes room for one more.
fn forget_oldest() {
    let Ok(entries) = fs::read_dir(FOLDER) else {
        return;
    };
    let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    if paths.len() < MAX_RESPONSES {
        return;
    }
    let written = |path: &std::path::PathBuf| {
        let written = fs::metadata(path).and_then(|about| about.modified());
        written.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut by_age: Vec<_> = paths
        .into_iter()
        .map(|path| (written(&path), path))
        .collect();
    by_age.sort();
    // Some more than needed, so that the ages are not read for each response.
    for (_, path) in by_age.iter().take(1 + MAX_RESPONSES / 10) {
        let _ = fs::remove_file(path); // another request may have removed it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_are_names_of_files() {
        assert!(path_of("resp_0a-1_b").is_some());
        for id in [
            "",
            "resp",
            "msg_1",
            "resp_../x",
            "resp_a/b",
            "resp_.",
            "resp_\0",
        ] {
            assert!(path_of(id).is_none(), "{id}");
        }
    }
}
