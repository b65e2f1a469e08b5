//! The JSON Schema of a Rust type, in keywords that the engine enforces.

use std::collections::BTreeSet;

use serde_json::{json, Map, Value};

use crate::schemars::{self, JsonSchema};

/// Larger numbers are not exact in every JSON reader.
const MAX_EXACT: i64 = (1 << 53) - 1;

pub(crate) fn schema_value<T: JsonSchema>() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(T)).unwrap_or_default();
    tell_bounds(&mut schema);
    spread_keys(&mut schema);
    close_objects(&mut schema);
    schema
}

/// Writes the keys of an object into the alternatives that complete it, such as the variants of an enum that is flattened
/// into a struct. Each of them then describes a whole object, which can be closed.
fn spread_keys(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            entries.values_mut().for_each(spread_keys);
            spread(entries);
        }
        Value::Array(items) => items.iter_mut().for_each(spread_keys),
        _ => {}
    }
}

fn spread(entries: &mut Map<String, Value>) {
    let kinds: Vec<&str> =
        ["oneOf", "anyOf"].into_iter().filter(|key| entries.contains_key(*key)).collect();
    let &[kind] = &kinds[..] else { return };
    let own = Value::Object(entries.iter().filter(|(key, _)| *key != kind).map(cloned).collect());
    let Some(Value::Array(alternatives)) = entries.get_mut(kind) else { return };
    if !own["properties"].is_object() || !is_plain(&own) || !alternatives.iter().all(is_plain) {
        return;
    }
    for alternative in alternatives {
        let mut properties = own["properties"].clone();
        let mut required = own["required"].as_array().cloned().unwrap_or_default();
        let map = properties.as_object_mut().expect("checked above");
        map.extend(alternative["properties"].as_object().into_iter().flatten().map(cloned));
        required.extend(alternative["required"].as_array().into_iter().flatten().cloned());
        alternative["properties"] = properties;
        alternative["required"] = required.into();
    }
    for key in ["properties", "required", "additionalProperties"] {
        entries.remove(key);
    }
}

fn cloned((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// Whether a schema describes an object by its keys alone.
fn is_plain(schema: &Value) -> bool {
    let others = ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"];
    let closed = schema.get("additionalProperties").is_none_or(|more| *more == json!(false));
    schema["type"] == "object" && closed && others.iter().all(|key| schema.get(*key).is_none())
}

/// Forbids keys that are not fields of the type. The type could not hold them, and a model that may add keys often goes
/// on without end. If several schemas describe one object together, such as those of a struct and of an enum that is
/// flattened into it, the object stays open: each of them would forbid the keys of the others.
fn close_objects(schema: &mut Value) {
    let mut closing = Closing { open: BTreeSet::new(), closes: false };
    loop {
        let known = closing.open.len();
        closing.root(schema);
        if closing.open.len() == known {
            break; // otherwise, what the open definitions refer to is open too
        }
    }
    closing.closes = true;
    closing.root(schema);
}

struct Closing {
    /// The definitions that stay open, as `$ref` names them.
    open: BTreeSet<String>,
    /// Whether objects are closed, or the open definitions are only collected.
    closes: bool,
}

impl Closing {
    fn root(&mut self, schema: &mut Value) {
        self.schema(schema, false);
        for place in ["definitions", "$defs"] {
            let Some(definitions) = schema.get_mut(place).and_then(Value::as_object_mut) else {
                continue;
            };
            for (name, definition) in definitions {
                let is_part = self.open.contains(&format!("#/{place}/{name}"));
                self.schema(definition, is_part);
            }
        }
    }

    /// `is_part` says that other schemas describe the same value too.
    fn schema(&mut self, schema: &mut Value, is_part: bool) {
        let entries = match schema {
            Value::Object(entries) => entries,
            Value::Array(items) => {
                return items.iter_mut().for_each(|item| self.schema(item, is_part))
            }
            _ => return,
        };
        let shares = is_part || is_shared(entries);
        for (key, value) in entries.iter_mut() {
            match key.as_str() {
                "allOf" | "anyOf" | "oneOf" => self.schema(value, shares),
                "definitions" | "$defs" => {}
                _ => self.schema(value, false),
            }
        }
        if shares {
            self.open.extend(entries.get("$ref").and_then(Value::as_str).map(String::from));
            return;
        }
        let is_object = entries.get("type").is_some_and(|kind| kind == "object");
        let is_open = ["additionalProperties", "patternProperties"]
            .iter()
            .any(|key| entries.contains_key(*key));
        if self.closes && is_object && entries.contains_key("properties") && !is_open {
            entries.insert("additionalProperties".into(), json!(false));
        }
    }
}

/// Whether several schemas in here describe one value.
fn is_shared(entries: &Map<String, Value>) -> bool {
    let parts = entries.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
    let others = ["properties", "anyOf", "oneOf", "$ref"];
    parts + others.iter().filter(|key| entries.contains_key(**key)).count() > 1
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
    Some(match (signed, bits > 53) {
        (true, true) => (-MAX_EXACT, MAX_EXACT),
        (false, true) => (0, MAX_EXACT),
        (true, false) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (false, false) => (0, (1 << bits) - 1),
    })
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
        close_objects(&mut schema);
        let mut closed = point.clone();
        closed["additionalProperties"] = json!(false);
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {"at": closed.clone()}, "$defs": {"p": closed}, "additionalProperties": false})
        );
        let together = json!({"allOf": [point.clone(), {"properties": {"y": {}}}]});
        let mut same = together.clone();
        close_objects(&mut same);
        assert_eq!(same, together);
        let mut map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
        close_objects(&mut map);
        assert_eq!(map["additionalProperties"], json!({"type": "integer"}));
    }

    #[test]
    fn objects_that_several_schemas_describe_stay_open() {
        let kind =
            json!({"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]});
        // An enum that is flattened into a struct.
        let mut flat = json!({"type": "object", "properties": {"x": {}}, "oneOf": [kind.clone()]});
        let same = flat.clone();
        close_objects(&mut flat);
        assert_eq!(flat, same);
        // An enum alone.
        let mut one_of = json!({"oneOf": [kind.clone()]});
        close_objects(&mut one_of);
        assert_eq!(one_of["oneOf"][0]["additionalProperties"], json!(false));
        // A variant of an enum that schemars 1 writes as a reference, and a struct that is used alone.
        let point = json!({"type": "object", "properties": {"x": {}}});
        let mut variant = kind;
        variant["$ref"] = json!("#/$defs/Outer");
        let mut schema = json!({
            "oneOf": [variant],
            "$defs": {
                "Inner": point.clone(),
                "Outer": {"allOf": [{"$ref": "#/$defs/Inner"}]},
                "Alone": point.clone(),
            }
        });
        close_objects(&mut schema);
        assert_eq!(schema["oneOf"][0].get("additionalProperties"), None);
        assert_eq!(schema["$defs"]["Inner"], point);
        assert_eq!(schema["$defs"]["Alone"]["additionalProperties"], json!(false));
    }

    #[test]
    fn a_flattened_enum_and_its_struct_are_closed_together() {
        #[derive(crate::schemars::JsonSchema)]
        #[allow(dead_code)]
        struct Order {
            guest: String,
            #[serde(flatten)]
            dish: Dish,
        }
        #[derive(crate::schemars::JsonSchema)]
        #[serde(tag = "dish")]
        #[allow(dead_code)]
        enum Dish {
            Pie { slices: i8 },
            Soup { hot: bool },
        }
        let schema = schema_value::<Order>();
        assert_eq!((&schema["type"], schema.get("properties")), (&json!("object"), None));
        let [pie, soup] = [&schema["oneOf"][0], &schema["oneOf"][1]];
        let keys = |schema: &Value| -> Vec<String> {
            schema["properties"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(
            (keys(pie), keys(soup)),
            (text(["dish", "guest", "slices"]), text(["dish", "guest", "hot"]))
        );
        assert_eq!(pie["required"].as_array().unwrap().len(), 3);
        assert_eq!(
            (&pie["additionalProperties"], &soup["additionalProperties"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(pie["properties"]["slices"]["minimum"], -128);
    }

    fn text(names: [&str; 3]) -> Vec<String> {
        names.map(String::from).to_vec()
    }

    #[test]
    fn keys_are_not_spread_over_what_is_no_plain_object() {
        let part = json!({"type": "object", "properties": {"y": {}}, "required": ["y"]});
        for other in [json!({"$ref": "#/$defs/A"}), json!({"type": "string"}), json!({"allOf": []})]
        {
            let mut schema =
                json!({"type": "object", "properties": {"x": {}}, "anyOf": [part, other]});
            let same = schema.clone();
            spread_keys(&mut schema);
            assert_eq!(schema, same);
        }
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
                "b": {"type": "integer", "minimum": i32::MIN, "maximum": 7},
                "c": {"type": "number"},
                "d": {"type": "string", "format": "date-time"},
                "e": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MAX_EXACT}},
            }})
        );
    }
}
