//! The rules of strings for texts that are written as they are, without JSON's quotes and escapes: as expressions of Lark.
use super::formats::text_expression;
use super::patterns::pattern_at;
use super::{below, invalid, unsupported};
use crate::grammar::{Budget, Error};
use llguidance::regex_to_lark;
use serde_json::Value as Json;

/// The expressions that a text of this schema must match, from its beginning to its end.
pub fn expressions(schema: &Json, here: &str, budget: &Budget) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    let count = |key: &str| schema.get(key).and_then(Json::as_u64);
    let (least, most) = (count("minLength"), count("maxLength"));
    if least.is_some() || most.is_some() {
        let most = most.map_or(String::new(), |most| most.to_string());
        all.push(format!("/(?s:.){{{},{most}}}/", least.unwrap_or(0)));
    }
    if let Some(pattern) = schema.get("pattern") {
        let here = below(here, "pattern");
        let pattern = pattern
            .as_str()
            .ok_or_else(|| invalid(&here, "`pattern` is a regular expression"))?;
        let made = pattern_at(pattern, &here, budget)?;
        let whole = from_end_to_end(&made).ok_or_else(|| {
            unsupported(
                &here,
                "`^` and `$` in a branch of this expression are not enforced in arguments without quotes",
            )
        })?;
        all.push(format!("/{}/", regex_to_lark(&whole, "dw")));
    }
    if let Some(format) = schema.get("format") {
        let name = format.as_str().unwrap_or_default();
        let here = below(here, "format");
        let expression = text_expression(name).ok_or_else(|| {
            unsupported(
                &here,
                format!("the format {format} is not enforced in arguments without quotes"),
            )
        })?;
        all.push(format!("/{}/", regex_to_lark(&expression, "dw")));
    }
    if all.is_empty() {
        all.push("/(?s:.*)/".into());
    }
    Ok(all)
}

/// The expression of a whole text in which `pattern` matches. None if an anchor belongs to one branch only.
fn from_end_to_end(pattern: &str) -> Option<String> {
    let inner = pattern.strip_prefix('^');
    let (begins, inner) = (inner.is_some(), inner.unwrap_or(pattern));
    let escapes = |text: &str| text.len() - text.trim_end_matches('\\').len();
    let shorter = inner
        .strip_suffix('$')
        .filter(|text| escapes(text) % 2 == 0);
    let (ends, inner) = (shorter.is_some(), shorter.unwrap_or(inner));
    let (mut depth, mut in_class, mut chars) = (0, false, inner.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth == 0 && (begins || ends) => return None,
            '^' | '$' => return None,
            _ => {}
        }
    }
    let any = |is_anchored: bool| if is_anchored { "" } else { "(?s:.*)" };
    Some(format!("{}(?:{inner}){}", any(begins), any(ends)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_taken_off() {
        let made = |pattern: &str| from_end_to_end(pattern);
        assert_eq!(made("^a$").as_deref(), Some("(?:a)"));
        assert_eq!(made("a|b").as_deref(), Some("(?s:.*)(?:a|b)(?s:.*)"));
        assert_eq!(made("^(a|[|$])").as_deref(), Some("(?:(a|[|$]))(?s:.*)"));
        assert_eq!(made("a\\$").as_deref(), Some("(?s:.*)(?:a\\$)(?s:.*)"));
        assert_eq!(made("^a|b$"), None);
        assert_eq!(made("(^a|b)"), None);
    }
}
