//! How documents are written: their whitespace and their escapes, which a schema says nothing about.
use serde_json::{json, Map, Value as Json};

/// Between the parts of a document there may be one blank, or the end of a line and the blanks that indent the next one. A
/// model that could write blanks without end would never finish the document.
const WHITESPACE: &str = "[ \\t]|\\r?\\n[ \\t]{0,32}";

pub fn with_options(schema: Json) -> Json {
    let mut entries = match schema {
        Json::Object(entries) => entries,
        Json::Bool(true) => Map::new(),
        other => return other,
    };
    entries.insert(
        "x-guidance".into(),
        json!({"whitespace_pattern": WHITESPACE}),
    );
    Json::Object(entries)
}

/// A schema in whose texts `\u` is not written. Where properties of other names than those of the schema are allowed, a
/// name of the schema must not come by another spelling: `"\u0061"` would be a property `a` that nothing checked.
pub fn without_escapes(mut schema: Json) -> Json {
    if let Some(options) = schema.pointer_mut("/x-guidance") {
        options["json_allowed_escapes"] = json!("nrbtf\\\"");
    }
    schema
}
