//! The JSON Schemas inside of a Lark source (`%json {…}`). They are checked like those that stand alone, and passed to the
//! crate in the form that it enforces. The lines of the source stay; columns behind a schema are counted back.
use super::{schema, Budget, Error, Place};
use serde_json::Value as Json;

/// A source as the crate is given it.
#[derive(Debug)]
pub struct Lark {
    text: String,
    /// In their order.
    schemas: Vec<Written>,
}

/// Where a schema ends. Columns are counted in bytes from 1, as the crate counts them.
#[derive(Debug)]
struct Written {
    line: usize,
    column: usize,
    /// The same in the source.
    source: usize,
}

impl From<String> for Lark {
    /// A source without schemas, or with schemas that were checked.
    fn from(text: String) -> Self {
        Lark {
            text,
            schemas: Vec::new(),
        }
    }
}

impl Lark {
    pub fn checked(source: &str, budget: &Budget) -> Result<Lark, Error> {
        let found = schemas(source);
        let mut made = Lark::from(String::with_capacity(source.len()));
        let mut from = 0;
        for one in &found {
            let checked =
                schema::checked(&one.schema, budget).map_err(|error| match found.len() {
                    1 => error, // its pointer says enough
                    _ => Error {
                        place: Some(place_of(source, one.start)),
                        text: error.to_string(),
                        ..error
                    },
                })?;
            made.text += &source[from..one.start];
            // The line breaks come first, so that the schema ends in the line where it ended.
            made.text.extend(source[one.start..one.end].matches('\n'));
            made.text += &checked.to_string();
            made.schemas.push(Written {
                line: 1 + source[..one.end].matches('\n').count(),
                column: column(&made.text),
                source: column(&source[..one.end]),
            });
            from = one.end;
        }
        made.text += &source[from..];
        Ok(made)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether schemas were found and checked.
    pub fn has_schemas(&self) -> bool {
        !self.schemas.is_empty()
    }

    /// The place in `source` of a place that the crate names, which counts bytes.
    pub fn place_in(&self, source: &str, line: usize, column: usize) -> Place {
        let before = |one: &&Written| one.line == line && one.column <= column;
        let bytes = match self.schemas.iter().rev().find(before) {
            Some(one) => column - one.column + one.source,
            None => column,
        };
        let text = source
            .split('\n')
            .nth(line.saturating_sub(1))
            .unwrap_or_default();
        let characters = text.char_indices().filter(|(at, _)| at + 1 < bytes).count();
        // The crate may name a place behind the end.
        let beyond = bytes.saturating_sub(1).saturating_sub(text.len());
        Place::Position {
            line,
            column: 1 + characters + beyond,
        }
    }
}

/// The schemas of a source, and where they begin.
pub fn placed_schemas(source: &str) -> Vec<(Json, Place)> {
    let found = schemas(source).into_iter();
    found
        .map(|one| (one.schema, place_of(source, one.start)))
        .collect()
}

/// The column of what comes behind a text.
fn column(text: &str) -> usize {
    1 + text.len() - text.rfind('\n').map_or(0, |at| at + 1)
}

fn place_of(source: &str, at: usize) -> Place {
    let before = &source[..at];
    Place::Position {
        line: 1 + before.matches('\n').count(),
        column: 1 + before.chars().rev().take_while(|c| *c != '\n').count(),
    }
}

struct Found {
    schema: Json,
    start: usize,
    end: usize,
}

/// The schemas of a source, as far as its lexer gets. What is no JSON is left for the crate to refuse.
fn schemas(source: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if let Some(behind) = rest.strip_prefix("%json") {
            let start = source.len() - behind.trim_start().len();
            let mut values = serde_json::Deserializer::from_str(&source[start..]).into_iter();
            if let Some(Ok(schema)) = values.next() {
                let end = start + values.byte_offset();
                found.push(Found { schema, start, end });
                at = end;
                continue;
            }
        }
        at += match first {
            '"' => text(rest, '"'),
            '/' if rest.starts_with("//") => line(rest),
            '#' => line(rest),
            '/' => text(rest, '/'),
            '<' => token(rest),
            _ => first.len_utf8(),
        };
    }
    found
}

/// The length of a text or of a regular expression, with its quotes. If it is not closed, the lexer gets no further.
fn text(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' if quote == '"' => return at,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn line(rest: &str) -> usize {
    rest.find('\n').unwrap_or(rest.len())
}

/// The length of a special token's name, `<…>`; 1 if it is none.
fn token(rest: &str) -> usize {
    let is_end = |c: char| c == '>' || c == '<' || c.is_whitespace();
    match rest[1..].find(is_end) {
        Some(at) if at > 0 && rest[1 + at..].starts_with('>') => at + 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::ErrorKind;

    fn checked(source: &str) -> Lark {
        Lark::checked(source, &Budget::default()).unwrap()
    }

    #[test]
    fn schemas_are_found_where_the_lexer_finds_them() {
        let count = |source: &str| schemas(source).len();
        assert_eq!(count("start: %json {\"a\": \"}\"} | %json true"), 2);
        assert_eq!(count("start: \"%json {}\" # %json {}\n // %json {}\n"), 0);
        assert_eq!(count("start: /%json {}\\// <%json> \"\\\"%json {}\""), 0);
        assert_eq!(count("start: </think> %json {} /a/ %json {}"), 2);
        assert_eq!(count("start: %json {"), 0);
    }

    #[test]
    fn places_are_those_of_the_source() {
        let source = "start: \"é\" %json {\"type\":\n \"null\"} é b\nb: é";
        let made = checked(source);
        assert_eq!(made.text().matches('\n').count(), 2);
        for (line, sought) in [(1, "\"é\""), (2, "b"), (3, "é")] {
            let text = made.text().split('\n').nth(line - 1).unwrap();
            let own = source.split('\n').nth(line - 1).unwrap();
            let column = 1 + own[..own.rfind(sought).unwrap()].chars().count();
            let place = made.place_in(source, line, 1 + text.rfind(sought).unwrap());
            assert_eq!(place, Place::Position { line, column });
        }
    }

    #[test]
    fn what_is_not_enforced_is_refused() {
        let fault = |source: &str| Lark::checked(source, &Budget::default()).unwrap_err();
        let error = fault("start: %json {\"items\": {\"contains\": {}}}");
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert_eq!(error.place, Some(Place::Pointer("/items/contains".into())));
        let error = fault("start: %json {}\n  | %json {\"contains\": {}}");
        assert!(
            error
                .to_string()
                .starts_with("line 2, column 11: /contains: the keyword"),
            "{error}"
        );
    }
}
