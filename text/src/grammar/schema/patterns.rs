//! The regular expressions of a schema: `pattern` and `patternProperties`.
use super::ecma::translated;
use super::{below, invalid, quoted, unsupported};
use crate::grammar::{Budget, Error};
use llguidance::derivre::{RegexAst, RegexBuilder};
use llguidance::regex_to_lark;
use serde_json::{Map, Value as Json};

/// The expression as the crate reads it.
pub fn pattern_at(pattern: &str, here: &str, budget: &Budget) -> Result<String, Error> {
    budget.spend(200 + 20 * pattern.len())?;
    let made = translated(pattern)
        .and_then(|made| check(&made).map(|()| made).map_err(|fault| fault.text));
    made.map_err(|error| {
        invalid(
            here,
            format!("the regular expression {pattern:?} is not accepted: {error}"),
        )
    })
}

/// `patternProperties`, whose expressions must not match the same name.
pub fn patterns_at(schemas: Json, here: &str, budget: &Budget) -> Result<Json, Error> {
    let mut made: Map<String, Json> = Map::new();
    for (pattern, schema) in schemas.as_object().into_iter().flatten() {
        let at = below(here, pattern);
        let next = quoted::exact(&pattern_at(pattern, &at, budget)?, &at, budget)?;
        for other in made.keys() {
            budget.spend(PAIR + 20 * (other.len() + next.len()))?;
            if !are_disjoint(other, &next) {
                return Err(unsupported(
                    here,
                    format!("`patternProperties`: {other:?} and {next:?} may match the same name, which is not enforced"),
                ));
            }
        }
        made.insert(next, schema.clone());
    }
    Ok(Json::Object(made))
}

/// The fault in an expression, and the index of the character at fault, counted from 0.
pub struct Fault {
    pub text: String,
    pub at: Option<usize>,
}

/// Whether the crate can follow an expression.
pub fn check(pattern: &str) -> Result<(), Fault> {
    let backslashes = pattern.len() - pattern.trim_end_matches('\\').len();
    if backslashes % 2 == 1 {
        return Err(Fault {
            text: "it ends with a backslash".into(),
            at: Some(pattern.chars().count() - 1),
        });
    }
    RegexBuilder::new()
        .mk_regex_for_serach(&regex_to_lark(pattern, "dw"))
        .map(|_| ())
        .map_err(|error| {
            let text = error.to_string();
            if let Some((at, written)) =
                assertion(pattern).filter(|_| text.starts_with("lookarounds"))
            {
                return Fault {
                    text: format!(
                        "`{written}` is not enforced; only ^ at the beginning and $ at the end are"
                    ),
                    at: Some(at),
                };
            }
            let last = text.lines().rfind(|line| !line.trim().is_empty());
            let last = last.unwrap_or_default().trim();
            Fault {
                text: last.trim_start_matches("error: ").to_string(),
                at: marked(&text).and_then(|column| position(pattern, column)),
            }
        })
}

/// The first assertion about the characters around it, such as `\b`, with its place. The crate tells neither.
fn assertion(pattern: &str) -> Option<(usize, String)> {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut at, mut in_class, mut anchor) = (0, false, None);
    while at < chars.len() {
        match chars[at] {
            '\\' => {
                let next = chars.get(at + 1).copied();
                if let Some(next) = next.filter(|c| !in_class && "bBAz<>".contains(*c)) {
                    return Some((at, format!("\\{next}")));
                }
                at += 1;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            c @ ('^' | '$') if !in_class && at > 0 && at + 1 < chars.len() => {
                anchor.get_or_insert((at, c.to_string()));
            }
            _ => {}
        }
        at += 1;
    }
    anchor
}

/// The column that the parser of expressions marks by a `^` below the expression, which it indents by four blanks.
fn marked(text: &str) -> Option<usize> {
    let marks = text.lines().nth(2)?;
    let is_marks = marks.bytes().all(|c| c == b'^' || c == b' ');
    marks.find('^').filter(|_| is_marks)?.checked_sub(4)
}

/// The character of `pattern` that stands in a column of what the crate was given.
fn position(pattern: &str, column: usize) -> Option<usize> {
    if pattern.len() > LONGEST {
        return None;
    }
    let ends = pattern.char_indices().map(|(i, c)| i + c.len_utf8());
    let written = |end: usize| regex_to_lark(&pattern[..end], "dw").chars().count();
    let found = ends.enumerate().find(|(_, end)| written(*end) > column);
    let Some((i, end)) = found else {
        return Some(pattern.chars().count());
    };
    // A backslash is written together with the character after it.
    let before = pattern[..end].chars().rev().skip(1);
    let slashes = before.take_while(|c| *c == '\\').count();
    Some(i - slashes % 2)
}

/// Bytes of an expression in which the place of a mistake is looked for.
const LONGEST: usize = 1_000;

/// Limit on the cost of an emptiness check, and that cost in a budget.
const FUEL: u64 = 10_000;
pub const PAIR: usize = 10_000;

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

/// Those of the names that a pattern matches, if it matches no other name.
pub fn only_names(pattern: &str, names: &[String]) -> Option<Vec<String>> {
    let mut builder = RegexBuilder::new();
    let matching = builder
        .mk_regex_for_serach(&regex_to_lark(pattern, "dw"))
        .ok()?;
    let mut is_empty = |others: RegexAst| {
        let both = RegexAst::And(vec![RegexAst::ExprRef(matching), others]);
        let both = builder.mk(&both).ok()?;
        let regex = builder.to_regex_limited(both, FUEL).ok();
        regex.map(|mut regex| regex.always_empty())
    };
    let literal = |name: &String| RegexAst::Literal(name.clone());
    let all = RegexAst::Or(names.iter().map(literal).collect());
    if names.is_empty() || !is_empty(RegexAst::Not(Box::new(all)))? {
        return None;
    }
    let mut is_matched = |name: &&String| is_empty(literal(name)) == Some(false);
    Some(
        names
            .iter()
            .filter(|name| is_matched(name))
            .cloned()
            .collect(),
    )
}
