//! The faults of a grammar, and where they are.
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The source breaks the rules of its language, or no text can match it.
    Invalid,
    /// The source uses something that is not enforced.
    Unsupported,
    /// The source, or the compiled grammar, is larger than a limit.
    TooLarge,
    /// Compiling took longer than the limit.
    TooSlow,
    /// A token does not fit the grammar here.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A JSON pointer into a schema.
    Pointer(String),
    /// A position in a text, counted from 1.
    Position { line: usize, column: usize },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub place: Option<Place>,
    pub text: String,
}

impl Error {
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Error {
            kind,
            place: None,
            text: text.into(),
        }
    }

    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, text)
    }

    /// An error in the schema of a tool's parameters.
    pub(crate) fn of_tool(name: &str, error: Error) -> Self {
        Error {
            text: format!("the parameters of the tool '{name}': {error}"),
            place: None,
            ..error
        }
    }

    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(Place::Pointer(pointer)) if pointer.is_empty() => {
                write!(f, "the schema: {}", self.text)
            }
            Some(Place::Pointer(pointer)) => write!(f, "{pointer}: {}", self.text),
            Some(Place::Position { line, column }) => {
                write!(f, "line {line}, column {column}: {}", self.text)
            }
            None => f.write_str(&self.text),
        }
    }
}

impl std::error::Error for Error {}
