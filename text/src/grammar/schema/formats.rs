//! The meaning of formats that the crate does not know or checks too loosely.
use super::unsupported;
use crate::grammar::Error;
use serde_json::{json, Map, Value as Json};

pub enum Format {
    /// The crate's own.
    Text,
    /// A schema that says the same.
    Schema(Json),
    Nothing,
}

pub fn format_of(value: &Json, schema: &Map<String, Json>, here: &str) -> Result<Format, Error> {
    let name = value.as_str().unwrap_or_default();
    let types: Vec<&str> = match schema.get("type") {
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        Some(Json::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let of_number = types
        .iter()
        .any(|name| ["integer", "number"].contains(name));
    if name == "hostname" {
        let schema = json!({"pattern": format!("^{LABEL}(?:\\.{LABEL})*$"), "maxLength": 253});
        return Ok(Format::Schema(schema));
    }
    match expression(name) {
        Some(expression) => return Ok(Format::Schema(json!({ "pattern": expression }))),
        None if TEXTS.contains(&name) => return Ok(Format::Text),
        None => {}
    }
    match range(name) {
        Some(mut range) if of_number => {
            if types.contains(&"number") {
                range["multipleOf"] = json!(1);
            }
            Ok(Format::Schema(range))
        }
        None if of_number && ["float", "double"].contains(&name) => Ok(Format::Nothing),
        _ => Err(unsupported(
            here,
            format!(
                "the format {value} is not enforced; these are: {}",
                TEXTS.join(", ")
            ),
        )),
    }
}

/// The formats of texts that are enforced.
const TEXTS: [&str; 10] = [
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
    "uri",
];

/// February has 29 days in leap years only.
const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
/// A leap second is the last one of a day in UTC.
const TIME: &str = "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|23:59:60(?:\\.[0-9]+)?(?:[zZ]|[+-]00:00))";
const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

/// The expression of a format that replaces the crate's own.
fn expression(format: &str) -> Option<String> {
    let inner = match format {
        "date" => DATE.to_string(),
        "time" => TIME.to_string(),
        "date-time" => format!("{DATE}[tT]{TIME}"),
        "ipv6" => ipv6(),
        _ => return None,
    };
    Some(format!("^(?:{inner})$"))
}

/// The expression of a format in a text that is written without quotes. The crate's own formats are for JSON only.
pub fn text_expression(format: &str) -> Option<String> {
    let inner = match format {
        "hostname" => format!("{LABEL}(?:\\.{LABEL})*"),
        "email" => format!("[a-zA-Z0-9.!#$%&'*+/=?^_`{{|}}~-]+@{LABEL}(?:\\.{LABEL})*"),
        "ipv4" => format!("(?:{BYTE}\\.){{3}}{BYTE}"),
        "uuid" => "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}".to_string(),
        "uri" => "[a-zA-Z][a-zA-Z0-9+.-]*:[!#$%&'()*+,./:;=?@\\[\\]_~0-9a-zA-Z-]+".to_string(),
        "duration" => DURATION.to_string(),
        other => return expression(other).map(|whole| whole[1..whole.len() - 1].to_string()),
    };
    Some(format!("(?:{inner})"))
}

/// Weeks, or a date and a time of which one may be missing.
const DURATION: &str = "P(?:[0-9]+W|(?:[0-9]+[YMD])+(?:T(?:[0-9]+[HMS])+)?|T(?:[0-9]+[HMS])+)";

/// The rules of RFC 3986: eight groups, of which one run of zeros may be `::`, and the last two may be an IPv4 address.
fn ipv6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let last = format!("(?:{group}:{group}|(?:{BYTE}\\.){{3}}{BYTE})");
    let mut forms = vec![format!("(?:{group}:){{6}}{last}")];
    for after in (0..=5).rev() {
        let before = match 5 - after {
            0 => String::new(),
            n => format!("(?:(?:{group}:){{0,{}}}{group})?", n - 1),
        };
        forms.push(format!("{before}::(?:{group}:){{{after}}}{last}"));
    }
    forms.push(format!("(?:(?:{group}:){{0,5}}{group})?::{group}"));
    forms.push(format!("(?:(?:{group}:){{0,6}}{group})?::"));
    forms.join("|")
}

/// The range of an integer format, as OpenAPI and schemars write it. The bounds are exact in floating point; those of 64
/// bits are as wide as that allows.
fn range(format: &str) -> Option<Json> {
    let (least, most): (i64, i64) = match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int64" => (-WIDEST, WIDEST),
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" => (0, WIDEST),
        _ => return None,
    };
    Some(json!({"minimum": least, "maximum": most}))
}

const WIDEST: i64 = i64::MAX - 1023;
