//! Regular expressions of JSON Schema follow ECMA-262; the crate's syntax is another one.
use super::{below, invalid, unsupported};
use crate::grammar::Error;
use llguidance::derivre::{RegexAst, RegexBuilder};
use llguidance::regex_to_lark;
use serde_json::{Map, Value as Json};

/// The expression as the crate reads it.
pub fn pattern_at(pattern: &str, here: &str) -> Result<String, Error> {
    let made = translated(pattern).and_then(|made| check(&made).map(|()| made));
    made.map_err(|error| {
        invalid(
            here,
            format!("the regular expression {pattern:?} is not accepted: {error}"),
        )
    })
}

/// `patternProperties`, whose expressions must not match the same name.
pub fn patterns_at(schemas: Json, here: &str) -> Result<Json, Error> {
    let mut made: Map<String, Json> = Map::new();
    for (pattern, schema) in schemas.as_object().into_iter().flatten() {
        let next = pattern_at(pattern, &below(here, pattern))?;
        let mut others = made.keys();
        if let Some(other) = others.find(|other| !are_disjoint(other, &next)) {
            return Err(unsupported(
                here,
                format!("`patternProperties`: {other:?} and {next:?} may match the same name, which is not enforced"),
            ));
        }
        made.insert(next, schema.clone());
    }
    Ok(Json::Object(made))
}

/// Writes an ECMA-262 expression so that the crate gives it the same meaning.
fn translated(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push(c);
                out.extend(chars.next_if_eq(&'^'));
                if chars.peek() == Some(&']') {
                    return Err("a class of no characters".into());
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(c);
            }
            // Doubled, these are operators of classes in the crate's syntax.
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && chars.peek() == Some(&'-') => {
                return Err("`--` in a class; write \\- for the character".into());
            }
            '.' if !in_class => out.push_str("[^\\n\\r\\x{2028}\\x{2029}]"),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Whether the crate can follow an expression.
pub fn check(pattern: &str) -> Result<(), String> {
    let backslashes = pattern.len() - pattern.trim_end_matches('\\').len();
    if backslashes % 2 == 1 {
        return Err("it ends with a backslash".into());
    }
    RegexBuilder::new()
        .mk_regex_for_serach(&regex_to_lark(pattern, "dw"))
        .map(|_| ())
        .map_err(|error| {
            let text = error.to_string();
            let last = text.lines().rfind(|line| !line.trim().is_empty());
            last.unwrap_or_default()
                .trim()
                .trim_start_matches("error: ")
                .to_string()
        })
}

/// Limit on the cost of an emptiness check.
const FUEL: u64 = 10_000;

/// Whether no text matches both. False also if that takes too long to find out.
fn are_disjoint(first: &str, second: &str) -> bool {
    let mut builder = RegexBuilder::new();
    let mut made = |pattern: &str| builder.mk_regex_for_serach(&regex_to_lark(pattern, "dw"));
    let (Ok(first), Ok(second)) = (made(first), made(second)) else {
        return false;
    };
    let both = RegexAst::And(vec![RegexAst::ExprRef(first), RegexAst::ExprRef(second)]);
    let Ok(both) = builder.mk(&both) else {
        return false;
    };
    builder
        .to_regex_limited(both, FUEL)
        .is_ok_and(|mut regex| regex.always_empty())
}
