//! The operators that can make a value larger, or that look at all of it, charged for what they touch. The engine's own
//! are free: `{% set x = x ~ x %}` in a loop would take all memory in thirty turns. So the compiled program calls these.
use super::budget::{charge, LIST_ITEMS};
use super::python;
use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

/// Functions with names that no template can spell.
pub fn register(env: &mut Environment<'static>) {
    env.add_function("+", add);
    env.add_function("*", multiply);
    env.add_function("~", concatenate);
    env.add_function("==", |a: Value, b: Value| equal(&a, &b));
    env.add_function("!=", |a: Value, b: Value| equal(&a, &b).map(|same| !same));
    env.add_function("in", contains);
}

/// Makes a program call these functions.
pub fn replace(program: &mut Instructions<'static>) {
    for i in 0..program.len() as u32 {
        if let Some(instruction) = program.get_mut(i) {
            let name = match instruction {
                Instruction::Add => "+",
                Instruction::Mul => "*",
                Instruction::StringConcat => "~",
                Instruction::Eq => "==",
                Instruction::Ne => "!=",
                Instruction::In => "in",
                _ => continue,
            };
            *instruction = Instruction::CallFunction(name, Some(2));
        }
    }
}

fn refuse(operator: &str, a: &Value, b: &Value) -> Error {
    let text = format!("{} {operator} {} is not defined", a.kind(), b.kind());
    Error::new(ErrorKind::InvalidOperation, text)
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

fn integer(value: &Value) -> Option<i64> {
    match value.kind() {
        ValueKind::Bool => Some(value.is_true() as i64),
        ValueKind::Number if value.is_integer() => value.as_i64(),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::Bool => Some(value.is_true() as u8 as f64),
        _ => None,
    }
}

pub fn list(values: impl Iterator<Item = Value>) -> Result<Vec<Value>, Error> {
    let mut items = Vec::new();
    for value in values {
        if items.len() == LIST_ITEMS {
            let text = format!("a list of more than {LIST_ITEMS} items");
            return Err(Error::new(ErrorKind::InvalidOperation, text));
        }
        charge(32)?;
        items.push(value);
    }
    Ok(items)
}

fn add(a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        charge(x.len() + y.len())?;
        return Ok(Value::from([x, y].concat()));
    }
    if is_list(&a) && is_list(&b) {
        return Ok(Value::from(list(a.try_iter()?.chain(b.try_iter()?))?));
    }
    if let (Some(x), Some(y)) = (integer(&a), integer(&b)) {
        return x
            .checked_add(y)
            .map(Value::from)
            .ok_or_else(|| refuse("+", &a, &b));
    }
    match (float(&a), float(&b)) {
        (Some(x), Some(y)) => Ok(Value::from(x + y)),
        _ => Err(refuse("+", &a, &b)),
    }
}

fn multiply(a: Value, b: Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (integer(&a), integer(&b)) {
        return x
            .checked_mul(y)
            .map(Value::from)
            .ok_or_else(|| refuse("*", &a, &b));
    }
    if let (Some(x), Some(y)) = (float(&a), float(&b)) {
        return Ok(Value::from(x * y));
    }
    let (what, times) = match (integer(&a), integer(&b)) {
        (None, Some(n)) => (&a, n),
        (Some(n), None) => (&b, n),
        _ => return Err(refuse("*", &a, &b)),
    };
    let times = times.max(0) as usize;
    if let Some(text) = what.as_str() {
        charge(text.len().saturating_mul(times))?;
        return Ok(Value::from(text.repeat(times)));
    }
    if !is_list(what) {
        return Err(refuse("*", &a, &b));
    }
    let items: Vec<Value> = list(what.try_iter()?)?;
    let times = if items.is_empty() { 0 } else { times };
    Ok(Value::from(list(
        (0..times).flat_map(|_| items.iter().cloned()),
    )?))
}

fn concatenate(a: Value, b: Value) -> Result<Value, Error> {
    let mut text = python::str(&a)?;
    text.push_str(&python::str(&b)?);
    charge(text.len())?;
    Ok(Value::from(text))
}

/// The bytes, or items, that comparing a value may look at.
pub fn size(value: &Value) -> usize {
    match value.as_str() {
        Some(text) => text.len(),
        None => 16 * value.len().unwrap_or(1),
    }
}

fn equal(a: &Value, b: &Value) -> Result<bool, Error> {
    charge(size(a).min(size(b)))?;
    // Python compares True with 1, but no number with a text.
    Ok(a == b)
}

fn contains(needle: Value, hay: Value) -> Result<bool, Error> {
    if hay.is_undefined() {
        return Ok(false);
    }
    if let Some(text) = hay.as_str() {
        let Some(part) = needle.as_str() else {
            return Err(refuse("in", &needle, &hay));
        };
        charge(text.len())?;
        return Ok(text.contains(part));
    }
    match hay.kind() {
        ValueKind::Map => Ok(!hay.get_item(&needle)?.is_undefined()),
        ValueKind::Seq | ValueKind::Iterable => {
            for item in hay.try_iter()? {
                if equal(&item, &needle)? {
                    return Ok(true);
                }
                charge(16)?;
            }
            Ok(false)
        }
        _ => Err(refuse("in", &needle, &hay)),
    }
}
