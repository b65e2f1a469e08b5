//! Values as Python writes them: `str`, `repr` and `json.dumps`, which is what templates were tested with.
use super::budget::charge;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;

/// Deeper values are refused, because writing them recurses.
const DEPTH: usize = 64;

pub fn str(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        charge(text.len())?;
        return Ok(text.to_string());
    }
    if value.is_undefined() {
        return Ok(String::new());
    }
    let mut out = String::new();
    repr(value, &mut out, 0)?;
    Ok(out)
}

fn repr(value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
    charge(16)?;
    check_depth(depth)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => repr_text(value.as_str().unwrap_or_default(), out)?,
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr(&key, out, depth + 1)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            for (i, item) in value.try_iter()?.enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr(&item, out, depth + 1)?;
            }
            out.push(']');
        }
        _ => {
            let text = value.to_string();
            charge(text.len())?;
            out.push_str(&text);
        }
    }
    Ok(())
}

fn repr_text(text: &str, out: &mut String) -> Result<(), Error> {
    charge(text.len())?;
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    Ok(())
}

fn check_depth(depth: usize) -> Result<(), Error> {
    if depth < DEPTH {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidOperation,
        format!("a value is nested deeper than {DEPTH}"),
    ))
}

/// Integers as they are; floats with a point, as Python shows them.
fn number(value: &Value) -> String {
    let shown = value.to_string();
    if value.is_integer() {
        return shown;
    }
    match f64::try_from(value.clone()) {
        Ok(x) if x.is_nan() => "nan".into(),
        Ok(x) if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.into(),
        Ok(x) if x != 0.0 && !(1e-4..1e16).contains(&x.abs()) => {
            // 1e-05, 1e+16: two digits of exponent at least, with its sign
            let text = format!("{x:e}");
            let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        Ok(x) if x.fract() == 0.0 => format!("{x:.1}"),
        Ok(x) => format!("{x}"),
        Err(_) => shown,
    }
}

/// `tojson` as transformers defines it: `json.dumps(value, ensure_ascii=False, …)`.
pub fn tojson(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let ascii = kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort = kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        None => None,
        Some(v) if v.is_none() || v.is_undefined() => None,
        Some(v) => Some(match v.as_str() {
            Some(text) => text.to_string(),
            None => " ".repeat(v.as_usize().unwrap_or(0).min(64)),
        }),
    };
    let mut style = Json {
        ascii,
        sort,
        item: if indent.is_some() { "," } else { ", " }.into(),
        key: ": ".into(),
        indent,
    };
    if let Some(pair) = kwargs.get::<Option<Value>>("separators")? {
        if let (Some(item), Some(key)) = (
            pair.get_item_by_index(0)?.as_str(),
            pair.get_item_by_index(1)?.as_str(),
        ) {
            (style.item, style.key) = (item.into(), key.into());
        }
    }
    kwargs.assert_all_used()?;
    let mut out = String::new();
    style.write(value, &mut out, 0)?;
    Ok(out)
}

struct Json {
    ascii: bool,
    sort: bool,
    indent: Option<String>,
    item: String,
    key: String,
}

impl Json {
    fn write(&self, value: &Value, out: &mut String, depth: usize) -> Result<(), Error> {
        check_depth(depth)?;
        charge(16)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => match f64::try_from(value.clone()) {
                Ok(x) if x.is_nan() => out.push_str("NaN"),
                Ok(x) if x.is_infinite() => {
                    out.push_str(if x > 0.0 { "Infinity" } else { "-Infinity" })
                }
                _ => out.push_str(&number(value)),
            },
            ValueKind::String => self.text(value.as_str().unwrap_or_default(), out)?,
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort {
                    keys.sort();
                }
                self.list(out, depth, ('{', '}'), keys.len(), |this, out, i| {
                    match keys[i].as_str() {
                        Some(text) => this.text(text, out)?,
                        None => {
                            let mut key = String::new();
                            this.write(&keys[i], &mut key, depth + 1)?;
                            this.text(&key, out)?;
                        }
                    }
                    out.push_str(&this.key);
                    this.write(&value.get_item(&keys[i])?, out, depth + 1)
                })?;
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items: Vec<Value> = value.try_iter()?.collect();
                self.list(out, depth, ('[', ']'), items.len(), |this, out, i| {
                    this.write(&items[i], out, depth + 1)
                })?;
            }
            kind => {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("a value of type {kind} cannot be written as JSON"),
                ))
            }
        }
        Ok(())
    }

    fn list(
        &self,
        out: &mut String,
        depth: usize,
        (open, close): (char, char),
        count: usize,
        mut item: impl FnMut(&Self, &mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        for i in 0..count {
            if i > 0 {
                out.push_str(&self.item);
            }
            self.line(out, depth + 1)?;
            item(self, out, i)?;
        }
        if count > 0 {
            self.line(out, depth)?;
        }
        out.push(close);
        Ok(())
    }

    fn line(&self, out: &mut String, depth: usize) -> Result<(), Error> {
        if let Some(indent) = &self.indent {
            charge(1 + indent.len() * depth)?;
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
        Ok(())
    }

    fn text(&self, text: &str, out: &mut String) -> Result<(), Error> {
        charge(text.len())?;
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
        Ok(())
    }
}

/// JSON as Python writes it, outside of a rendering.
pub fn plain_json(value: &serde_json::Value) -> String {
    super::budget::begin(u64::MAX);
    tojson(
        &Value::from_serialize(value),
        Kwargs::from_iter([] as [(&str, Value); 0]),
    )
    .unwrap_or_default()
}
