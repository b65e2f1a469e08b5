//! The JSON Schema of a Rust type, in keywords that the engine enforces.

use serde_json::{json, Value};

use crate::schemars::{self, JsonSchema};

/// Larger numbers are not exact in every JSON reader.
const MAX_EXACT: i64 = (1 << 53) - 1;

pub(crate) fn schema_value<T: JsonSchema>() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default();
    tell_bounds(&mut schema);
    close_objects(&mut schema, false);
    schema
}

/// Forbids keys that are not fields of the type. The type could not hold them, and a model that may add keys often goes
/// on without end. If several schemas describe one object together, the object stays open.
fn close_objects(schema: &mut Value, is_part: bool) {
    match schema {
        Value::Object(entries) => {
            for (key, value) in entries.iter_mut() {
                close_objects(value, key == "allOf");
            }
            const OPEN: [&str; 6] =
                ["additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref"];
            let is_object = entries.get("type").is_some_and(|kind| kind == "object");
            let is_open = OPEN.iter().any(|key| entries.contains_key(*key));
            if is_object && entries.contains_key("properties") && !is_open && !is_part {
                entries.insert("additionalProperties".into(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| close_objects(item, is_part)),
        _ => {}
    }
}

/// Replaces the formats of schemars by bounds, so that every document can be read as the type. Drops `uniqueItems` of
/// sets: reading a set drops repeated items.
fn tell_bounds(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            entries.values_mut().for_each(tell_bounds);
            if entries.get("uniqueItems") == Some(&json!(true)) {
                entries.remove("uniqueItems");
            }
            let Some(format) = entries.get("format").and_then(Value::as_str) else { return };
            if matches!(format, "float" | "double") {
                entries.remove("format");
            } else if let Some((least, most)) = bounds(format) {
                entries.remove("format");
                // schemars writes some minimums as floats.
                entries.insert("minimum".into(), narrower(entries.get("minimum"), least, i64::max));
                entries.insert("maximum".into(), narrower(entries.get("maximum"), most, i64::min));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tell_bounds),
        _ => {}
    }
}

fn bounds(format: &str) -> Option<(i64, i64)> {
    let (signed, bits) = match format {
        "int" => (true, "64"),
        "uint" => (false, "64"),
        _ => match format.strip_prefix("uint") {
            Some(bits) => (false, bits),
            None => (true, format.strip_prefix("int")?),
        },
    };
    let bits: u32 = bits.parse().ok()?;
    let most = if bits > 53 { MAX_EXACT } else { (1 << (bits - u32::from(signed))) - 1 };
    Some((if signed { -most } else { 0 }, most))
}

/// Returns the narrower one of the written bound, if there is one, and the type's own.
fn narrower(written: Option<&Value>, own: i64, choose: fn(i64, i64) -> i64) -> Value {
    let written = written.and_then(Value::as_f64).map(|bound| bound as i64);
    json!(written.map_or(own, |bound| choose(bound, own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_no_other_keys() {
        let point = json!({"type": "object", "properties": {"x": {"type": "number"}}});
        let mut schema = json!({"type": "object", "properties": {"at": point.clone()}, "$defs": {"p": point.clone()}});
        close_objects(&mut schema, false);
        let mut closed = point.clone();
        closed["additionalProperties"] = json!(false);
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {"at": closed.clone()}, "$defs": {"p": closed}, "additionalProperties": false})
        );
        let together = json!({"allOf": [point.clone(), {"properties": {"y": {}}}]});
        let mut same = together.clone();
        close_objects(&mut same, false);
        assert_eq!(same, together);
        let mut map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        close_objects(&mut map, false);
        assert_eq!(map["additionalProperties"], json!({"type": "integer"}));
    }

    #[test]
    fn formats_become_bounds() {
        let mut schema = json!({"properties": {
            "a": {"type": "integer", "format": "uint8", "minimum": 0.0},
            "b": {"type": "integer", "format": "int32", "maximum": 7.0},
            "c": {"type": "number", "format": "double"},
            "d": {"type": "string", "format": "date-time"},
            "e": {"type": "array", "uniqueItems": true, "items": {"type": "integer", "format": "uint64"}},
        }});
        tell_bounds(&mut schema);
        assert_eq!(
            schema,
            json!({"properties": {
                "a": {"type": "integer", "minimum": 0, "maximum": 255},
                "b": {"type": "integer", "minimum": -2147483647i64, "maximum": 7},
                "c": {"type": "number"},
                "d": {"type": "string", "format": "date-time"},
                "e": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MAX_EXACT}},
            }})
        );
    }
}
