//! Filters and methods, charged for what they touch. What Jinja's and Python's own do is done by minijinja; what can
//! multiply (replace, join, indent, formats) is measured before it runs.
use super::budget::{charge, FORMAT_DIGITS};
use super::operators::size;
use super::python;
use minijinja::value::{from_args, Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::sync::OnceLock;

/// Filters that give back about as much as they take.
const STEADY: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "groupby",
    "int",
    "items",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "sum",
    "title",
    "unique",
    "upper",
];

/// minijinja's own filters, with those that follow Python: `map("tojson")` finds them here.
fn inner() -> &'static Environment<'static> {
    static INNER: OnceLock<Environment<'static>> = OnceLock::new();
    INNER.get_or_init(|| {
        let mut env = Environment::new();
        add_own(&mut env);
        env
    })
}

fn add_own(env: &mut Environment<'static>) {
    env.add_filter("tojson", |value: Value, kwargs: Kwargs| {
        python::tojson(&value, kwargs)
    });
    env.add_filter("string", |value: Value| python::str(&value));
    env.add_filter("trim", trim);
    env.add_filter("join", join);
    env.add_filter("replace", replace);
    env.add_filter("indent", indent);
    env.add_filter("format", format);
    for name in ["chain", "zip", "pprint"] {
        env.remove_filter(name); // not Jinja's, or without an end
    }
}

pub fn register(env: &mut Environment<'static>) {
    add_own(env);
    for name in STEADY {
        env.add_filter(*name, move |args: Rest<Value>| -> Result<Value, Error> {
            for arg in args.iter() {
                charge(size(arg))?;
            }
            if matches!(*name, "length" | "count") && args.first().is_some_and(Value::is_undefined)
            {
                return Ok(Value::from(0)); // as in Python
            }
            inner().empty_state().apply_filter(name, &args)
        });
    }
    // Python iterates over an undefined value, but not over None.
    env.add_test("iterable", |value: Value| match value.kind() {
        ValueKind::None => false,
        ValueKind::Undefined => true,
        _ => value.try_iter().is_ok(),
    });
    env.set_unknown_method_callback(method);
}

fn too_wide() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        "a format with a width that long",
    )
}

fn trim(value: Value, chars: Option<&str>) -> Result<String, Error> {
    let text = python::str(&value)?;
    Ok(match chars {
        Some(chars) => text.trim_matches(|c| chars.contains(c)),
        None => text.trim(),
    }
    .to_string())
}

fn join(
    values: Value,
    separator: Option<Value>,
    attribute: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let attribute = match kwargs.get::<Option<Value>>("attribute")? {
        Some(named) => Some(named),
        None => attribute,
    };
    let separator = match kwargs.get::<Option<Value>>("d")? {
        Some(named) => Some(named),
        None => separator,
    };
    kwargs.assert_all_used()?;
    let separator = separator
        .map(|s| python::str(&s))
        .transpose()?
        .unwrap_or_default();
    let mut out = String::new();
    for (i, value) in values.try_iter()?.enumerate() {
        if i > 0 {
            charge(separator.len())?;
            out.push_str(&separator);
        }
        let value = match &attribute {
            Some(name) => value.get_item(name)?,
            None => value,
        };
        charge(16)?;
        out.push_str(&python::str(&value)?);
    }
    Ok(out)
}

fn replace(text: Value, old: Value, new: Value, count: Option<i64>) -> Result<String, Error> {
    let (text, old, new) = (python::str(&text)?, python::str(&old)?, python::str(&new)?);
    let found = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(&old).count()
    };
    let count = match count {
        Some(n) if n >= 0 => found.min(n as usize),
        _ => found,
    };
    charge(text.len() + count.saturating_mul(new.len()))?;
    Ok(text.replacen(&old, &new, count))
}

fn indent(
    text: Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let width = kwargs.get::<Option<Value>>("width")?.or(width);
    let first = kwargs
        .get::<Option<bool>>("first")?
        .or(first)
        .unwrap_or(false);
    let blank = kwargs
        .get::<Option<bool>>("blank")?
        .or(blank)
        .unwrap_or(false);
    kwargs.assert_all_used()?;
    let pad = match width {
        Some(v) if v.as_str().is_some() => v.as_str().unwrap_or_default().to_string(),
        Some(v) => " ".repeat(v.as_usize().unwrap_or(4).min(256)),
        None => " ".repeat(4),
    };
    let text = python::str(&text)?;
    charge(text.len() + pad.len().saturating_mul(text.matches('\n').count() + 1))?;
    let mut out = String::new();
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if (i > 0 || first) && (blank || !line.is_empty()) {
            out.push_str(&pad);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Refuses widths that only make padding.
fn check_widths(format: &str, args: &[Value]) -> Result<(), Error> {
    let digits = format.split(|c: char| !c.is_ascii_digit());
    if digits.into_iter().any(|run| run.len() > FORMAT_DIGITS) || format.contains('*') {
        return Err(too_wide());
    }
    charge(format.len() * 16)?;
    let places = format.matches(['%', '{']).count();
    for arg in args {
        charge(size(arg).saturating_mul(places))?;
    }
    Ok(())
}

fn format(state: &State, text: Value, args: Rest<Value>) -> Result<Value, Error> {
    check_widths(text.as_str().unwrap_or_default(), &args)?;
    minijinja::filters::format(state, &text, args)
}

fn texts(list: &[&str]) -> Value {
    list.iter().map(|text| Value::from(*text)).collect()
}

fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    for arg in args {
        charge(size(arg))?;
    }
    charge(size(value))?;
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args);
    };
    match name {
        "replace" => {
            let (old, new, count): (Value, Value, Option<i64>) = from_args(args)?;
            replace(value.clone(), old, new, count).map(Value::from)
        }
        "join" => {
            let (values,): (Value,) = from_args(args)?;
            join(
                values,
                Some(value.clone()),
                None,
                Kwargs::from_iter([] as [(&str, Value); 0]),
            )
            .map(Value::from)
        }
        "format" => {
            check_widths(text, args)?;
            minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "partition" | "rpartition" => {
            let (by,): (&str,) = from_args(args)?;
            let found = if name == "partition" {
                text.split_once(by)
            } else {
                text.rsplit_once(by)
            };
            Ok(texts(&match found {
                Some((a, b)) => vec![a, by, b],
                None if name == "partition" => vec![text, "", ""],
                None => vec!["", "", text],
            }))
        }
        "rsplit" => {
            let (by, most): (Option<&str>, Option<i64>) = from_args(args)?;
            let most = most
                .filter(|n| *n >= 0)
                .map_or(usize::MAX, |n| n as usize + 1);
            let mut parts: Vec<&str> = match by {
                Some(by) => text.rsplitn(most, by).collect(),
                None => text
                    .rsplitn(most, char::is_whitespace)
                    .filter(|s| !s.is_empty())
                    .collect(),
            };
            parts.reverse();
            Ok(texts(&parts))
        }
        "index" => {
            let (part,): (&str,) = from_args(args)?;
            match text.find(part) {
                Some(at) => Ok(Value::from(text[..at].chars().count())),
                None => Err(Error::new(
                    ErrorKind::InvalidOperation,
                    "substring not found",
                )),
            }
        }
        "split" if args.len() == 1 && args[0].as_str() == Some("") => {
            Err(Error::new(ErrorKind::InvalidOperation, "empty separator"))
        }
        _ if value.kind() == ValueKind::String => {
            minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}
