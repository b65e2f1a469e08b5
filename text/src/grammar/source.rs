//! The source of a grammar, checked as far as that needs no vocabulary.
use super::lark::Lark;
use super::{compile, gbnf, limits, schema, Budget, Error, ErrorKind, Place};
use crate::{memory, own_stack};
use llguidance::api::TopLevelGrammar;
use llguidance::regex_to_lark;
use serde_json::Value as Json;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A JSON document that a schema allows.
    JsonSchema,
    /// Any JSON document.
    Json,
    /// A text that a regular expression matches from beginning to end.
    Regex,
    /// Lark, in llguidance's dialect.
    Lark,
    /// llama.cpp's GBNF: `root ::= …`.
    Gbnf,
}

/// Immutable, shared by threads, cheap to clone.
#[derive(Clone, Debug)]
pub struct Grammar {
    kind: Kind,
    text: Arc<str>,
    made: Arc<Made>,
    /// The tools whose calls the grammar describes: their names, and the schemas of their parameters.
    tools: Arc<[(String, String)]>,
    /// The memory that it takes. A schema takes many times as much as its text.
    bytes: usize,
}

/// The form of the grammar that is passed to the crate.
#[derive(Debug)]
enum Made {
    Schema(Json),
    Lark(Lark),
}

impl Grammar {
    pub fn from_json_schema(text: &str) -> Result<Grammar, Error> {
        check_size(text)?;
        on_own_stack(|| {
            let (grammar, bytes) = memory::counted(|| Self::of_schema(text));
            let mut grammar = grammar?;
            grammar.bytes = grammar.bytes.max(bytes.max(0).unsigned_abs());
            Ok(grammar)
        })
    }

    fn of_schema(text: &str) -> Result<Grammar, Error> {
        let json: Json = serde_json::from_str(text).map_err(|e| {
            let text = without_position(&e);
            let error = match text.contains("recursion limit") {
                true => Error::new(
                    ErrorKind::TooLarge,
                    "the schema is nested more than 128 deep",
                ),
                false => Error::invalid(format!("the schema is not JSON: {text}")),
            };
            error.at(Place::Position {
                line: e.line().max(1),
                column: e.column().max(1),
            })
        })?;
        let checked = schema::checked(&json, &Budget::default())?;
        Ok(Self::new(Kind::JsonSchema, text, Made::Schema(checked)))
    }

    pub fn json() -> Grammar {
        let any = serde_json::json!({});
        Self::new(Kind::Json, "", Made::Schema(schema::with_options(any)))
    }

    /// Anchors at both ends may be written; they change nothing.
    pub fn from_regex(pattern: &str) -> Result<Grammar, Error> {
        check_size(pattern)?;
        let inner = unanchored(pattern);
        let checked = own_stack::run("pie-grammar", limits::STACK_BYTES, || {
            schema::check_pattern(inner)
        });
        let too_deep = || {
            Err(schema::Fault {
                text: "it is nested too deep".into(),
                at: None,
            })
        };
        if let Err(fault) = checked.unwrap_or_else(too_deep) {
            let error = Error::invalid(format!(
                "the regular expression is not accepted: {}",
                fault.text
            ));
            let before = usize::from(pattern.starts_with('^'));
            return Err(match fault.at {
                Some(at) => error.at(place_in(pattern, before + at)),
                None => error,
            });
        }
        let inner = schema::without_stops(inner);
        let lark = match inner.as_str() {
            "" => "start: \"\"".to_string(),
            inner => format!("start: /{}/", regex_to_lark(inner, "")),
        };
        Ok(Self::new(Kind::Regex, pattern, Made::Lark(lark.into())))
    }

    /// GBNF if a rule is written with `::=`, otherwise Lark.
    pub fn from_ebnf(text: &str) -> Result<Grammar, Error> {
        check_size(text)?;
        if gbnf::is_gbnf(text) {
            let lark = on_own_stack(|| gbnf::to_lark(text, &Budget::default()))?;
            return Ok(Self::new(Kind::Gbnf, text, Made::Lark(lark.into())));
        }
        Self::from_lark(text)
    }

    /// Lark, in llguidance's dialect.
    pub fn from_lark(text: &str) -> Result<Grammar, Error> {
        check_size(text)?;
        check_depth(text)?;
        let lark = on_own_stack(|| Lark::checked(text, &Budget::default()))?;
        Ok(Self::new(Kind::Lark, text, Made::Lark(lark)))
    }

    /// Finds the faults of a Lark source that its reader did not: rules that do not exist, brackets that are not closed.
    /// They would be found when the grammar is compiled. `owner` stands for the user who asks.
    pub fn check_rules(&self, owner: u64) -> Result<(), Error> {
        compile::check_rules(self, owner)
    }

    /// Lark that the engine wrote for tool calls, from schemas that were checked. The user does not see its text, so
    /// errors name a tool and a place in the schema of its parameters.
    pub(crate) fn of_tools(text: &str, tools: Vec<(String, String)>) -> Result<Grammar, Error> {
        check_size(text)?;
        let lark = Lark::from(text.to_string());
        let mut grammar = Self::new(Kind::Lark, text, Made::Lark(lark));
        let sizes = tools.iter().map(|(name, schema)| name.len() + schema.len());
        grammar.bytes += sizes.sum::<usize>();
        grammar.tools = tools.into();
        Ok(grammar)
    }

    fn new(kind: Kind, text: &str, made: Made) -> Grammar {
        let made_bytes = match &made {
            Made::Schema(_) => 0, // the code that reads the schema counts them
            Made::Lark(lark) => lark.text().len(),
        };
        Grammar {
            kind,
            text: text.into(),
            made: Arc::new(made),
            tools: Arc::new([]),
            bytes: text.len() + made_bytes,
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The source as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tools whose calls the grammar describes, each with the schema of its parameters. Empty if its source does
    /// not come from tools.
    pub(super) fn tools(&self) -> &[(String, String)] {
        &self.tools
    }

    /// The memory that it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn key(&self) -> (Kind, Arc<str>) {
        (self.kind, self.text.clone())
    }

    /// The place in the text of a place that the crate names; none if that is in a translation.
    pub(super) fn place(&self, line: usize, column: usize) -> Option<Place> {
        match &*self.made {
            Made::Lark(lark) if self.kind == Kind::Lark && self.tools.is_empty() => {
                Some(lark.place_in(&self.text, line, column))
            }
            _ => None,
        }
    }

    /// Whether all tokens that it names by their ids, as in `<[7]>`, are of this kind. Ranges of ids count as tokens of
    /// any kind.
    pub(super) fn names_only(&self, is_of_kind: impl Fn(u32) -> bool) -> bool {
        let Made::Lark(lark) = &*self.made else {
            return true;
        };
        lark.text().split("<[").skip(1).all(|rest| {
            let id = rest.split("]>").next().unwrap_or_default();
            id.parse().is_ok_and(&is_of_kind)
        })
    }

    /// Whether its source is Lark with schemas that its author wrote.
    pub(super) fn has_schemas(&self) -> bool {
        matches!(&*self.made, Made::Lark(lark) if lark.has_schemas())
    }

    pub(super) fn top_level(&self) -> TopLevelGrammar {
        match &*self.made {
            Made::Schema(schema) => TopLevelGrammar::from_json_schema(schema.clone()),
            Made::Lark(lark) => TopLevelGrammar::from_lark(lark.text().into()),
        }
    }
}

fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    own_stack::run("pie-grammar", limits::STACK_BYTES, work)
        .unwrap_or_else(|| Err(Error::invalid("the grammar made its reader fail")))
}

fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_string()
}

fn check_size(text: &str) -> Result<(), Error> {
    if text.len() > limits::SOURCE_BYTES {
        return Err(Error::new(
            ErrorKind::TooLarge,
            format!(
                "the grammar has {} bytes; {} is the limit",
                text.len(),
                limits::SOURCE_BYTES
            ),
        ));
    }
    Ok(())
}

/// Brackets of Lark within one another, outside of texts and regular expressions.
fn check_depth(text: &str) -> Result<(), Error> {
    let (mut depth, mut open, mut escaped) = (0usize, None, false);
    let (mut line, mut column) = (1, 0);
    for c in text.chars() {
        column += 1;
        match (c, open) {
            ('\n', _) => {
                (line, column) = (line + 1, 0);
                open = None;
            }
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            (c, Some(end)) if c == end => open = None,
            (_, Some(_)) => {}
            ('"' | '/', None) => open = Some(c),
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limits::DEPTH {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("brackets are nested more than {} deep", limits::DEPTH),
            )
            .at(Place::Position { line, column }));
        }
    }
    Ok(())
}

/// The line and the column of a character, which is counted from 0.
fn place_in(text: &str, at: usize) -> Place {
    let (mut line, mut column) = (1, 1);
    for c in text.chars().take(at) {
        (line, column) = match c {
            '\n' => (line + 1, 1),
            _ => (line, column + 1),
        };
    }
    Place::Position { line, column }
}

fn unanchored(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.strip_suffix('$') {
        Some(inner) if (inner.len() - inner.trim_end_matches('\\').len()) % 2 == 0 => inner,
        _ => pattern,
    }
}
