//! Compilation under limits of time and memory, on a thread of its own.
use super::blame;
use super::lexer_masks::LexerMasks;
use super::permits::{Permit, Permits};
use super::source::{Grammar, Kind};
use super::tokens::Tokens;
use super::walk::{Origin, Walk};
use super::{limits, Error, ErrorKind};
use crate::memory;
use llguidance::api::{GrammarInit, TopLevelGrammar, ValidationResult};
use llguidance::toktrie::TokTrie;
use llguidance::{Matcher, ParserFactory};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Instant;

/// A grammar, compiled for one vocabulary. Immutable for its users, shared by threads.
pub struct Compiled {
    /// No text begins here, so its lexer has exactly the states that the compilation found.
    base: Mutex<Origin>,
    /// Where texts begin.
    origins: Mutex<Vec<Origin>>,
    vocab_size: u32,
    stops: Vec<u32>,
    /// The memory that the compilation has allocated.
    bytes: usize,
    /// Whether tokens are forced where the grammar leaves no choice.
    forces: bool,
    /// Whether the crate can take tokens back. It cannot where a rule has `max_tokens` or `stop`.
    goes_back: bool,
}

impl Compiled {
    /// The memory that the grammar takes beside its source: the compilation's, and that of the lexers of texts, which are
    /// copies of its lexer.
    pub fn bytes(&self) -> usize {
        let lexers = self.origins.lock().unwrap_or_else(|e| e.into_inner()).len();
        self.bytes.saturating_mul(1 + lexers.max(1))
    }

    pub(super) fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    pub(super) fn is_stop(&self, token: u32) -> bool {
        self.stops.contains(&token)
    }

    pub(super) fn forces(&self) -> bool {
        self.forces
    }

    pub(super) fn goes_back(&self) -> bool {
        self.goes_back
    }

    /// A walk that begins. There are several lexers, so that threads seldom wait for one another. Each is a copy of one
    /// that knows the states that texts of this grammar lead to.
    pub(super) fn start(&self) -> Walk {
        let mut origins = self.origins.lock().unwrap_or_else(|e| e.into_inner());
        origins.retain(Origin::is_good);
        let count = origins.len();
        let idlest = origins.iter().min_by_key(|origin| origin.walks());
        let new = match idlest {
            Some(origin) if origin.walks() == 0 || count == limits::LEXERS => {
                return origin.start();
            }
            Some(origin) => origin.copy(),
            None => self.base().copy(),
        };
        let walk = new.start();
        origins.push(new);
        walk
    }

    /// The same, with a lexer of its own.
    pub(super) fn start_alone(&self) -> Walk {
        self.base().copy().start()
    }

    fn base(&self) -> std::sync::MutexGuard<'_, Origin> {
        self.base.lock().unwrap_or_else(|e| e.into_inner())
    }
}

static PERMITS: Permits = Permits::new();

pub(super) fn too_slow() -> Error {
    Error::new(
        ErrorKind::TooSlow,
        format!(
            "the grammar was not compiled within {} seconds: make it smaller",
            limits::COMPILE_TIME.as_secs()
        ),
    )
}

/// Waits until `owner` may compile.
pub(super) fn permit(owner: u64, until: Instant) -> Result<Permit, Error> {
    PERMITS.wait(owner, until).ok_or_else(too_slow)
}

pub(super) fn compile(
    factory: &Arc<ParserFactory>,
    tokens: &Arc<Tokens>,
    grammar: &Grammar,
    permit: Permit,
    until: Instant,
) -> Result<Arc<Compiled>, Error> {
    let (factory, tokens, grammar) = (factory.clone(), tokens.clone(), grammar.clone());
    in_time(permit, until, move || {
        let started = Instant::now();
        let (built, bytes) = memory::counted(|| build(&factory, tokens, &grammar));
        match built {
            Ok(mut compiled) => {
                compiled.bytes = bytes.max(0).unsigned_abs();
                Ok(Arc::new(compiled))
            }
            Err(error) => Err(blame::placed(error, &grammar, started, |schema| {
                compiles(&factory, schema)
            })),
        }
    })
}

/// Compiles a Lark source as far as that needs no vocabulary, so that its faults are found. Other sources were checked
/// when they were read.
pub(super) fn check_rules(grammar: &Grammar, owner: u64) -> Result<(), Error> {
    if grammar.kind() != Kind::Lark {
        return Ok(());
    }
    let until = Instant::now() + limits::COMPILE_TIME;
    let permit = permit(owner, until)?;
    let grammar = grammar.clone();
    in_time(permit, until, move || {
        let started = Instant::now();
        let fault = |top| {
            let rules = GrammarInit::Serialized(top);
            match rules.validate(None, limits::parser()) {
                ValidationResult::Error(fault) => Some(fault),
                _ => None,
            }
        };
        let Some(fault_of_all) = fault(grammar.top_level()) else {
            return Ok(());
        };
        let error = explained(&fault_of_all, &grammar);
        Err(blame::placed(error, &grammar, started, |schema| {
            fault(TopLevelGrammar::from_json_schema(schema)).is_none()
        }))
    })
}

/// Runs `work` on a thread of its own, which is left alone if it takes longer than `until`.
fn in_time<T: Send + 'static>(
    permit: Permit,
    until: Instant,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let number = permit.number();
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name("pie-grammar".into())
        .stack_size(limits::STACK_BYTES)
        .spawn(move || {
            let _permit = permit;
            let _ = sender.send(work()); // not needed if its caller has given up
        })
        .map_err(|e| Error::new(ErrorKind::TooLarge, format!("no thread to compile on: {e}")))?;
    let left = until.saturating_duration_since(Instant::now());
    match receiver.recv_timeout(left) {
        Ok(outcome) => outcome,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            PERMITS.mark_late(number);
            Err(too_slow())
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            Err(Error::invalid("the grammar made the compiler fail"))
        }
    }
}

fn build(
    factory: &ParserFactory,
    tokens: Arc<Tokens>,
    grammar: &Grammar,
) -> Result<Compiled, Error> {
    let mut parser = factory
        .create_parser(grammar.top_level())
        .map_err(|error| explained(&error.to_string(), grammar))?;
    parser.start_without_prompt();
    let forces = tokens.is_exact() && !parser.parser.grammar().lexer_spec().no_forcing;
    let goes_back = parser.parser.grammar().lexer_spec().can_rollback();
    let masks = LexerMasks::new(tokens, &parser, grammar);
    let base = Origin::new(parser, masks);
    // The first mask fills caches that every walk needs, and finds grammars that no text can match.
    let mut first = Matcher::new(Ok(base.parser()));
    first.compute_mask_or_eos().map_err(|error| {
        if first.stop_reason().is_ok() {
            Error::invalid("no text can match the grammar")
        } else {
            explained(&error.to_string(), grammar)
        }
    })?;
    write_ahead(&mut first, factory.tok_env().tok_trie());
    let trie = factory.tok_env().tok_trie();
    Ok(Compiled {
        vocab_size: trie.vocab_size() as u32,
        stops: trie.eos_tokens().to_vec(),
        forces,
        goes_back,
        base: Mutex::new(base),
        origins: Mutex::default(),
        bytes: 0,
    })
}

/// Whether a schema compiles that was checked.
fn compiles(factory: &ParserFactory, schema: serde_json::Value) -> bool {
    let parser = factory.create_parser(TopLevelGrammar::from_json_schema(schema));
    Matcher::new(parser).compute_mask_or_eos().is_ok()
}

/// Follows the beginning of a short text, so that the lexer, which all walks start with, knows its states: the first
/// time that a text leads to a state takes ten times as long. A failure here is ignored: a text that causes it gets the
/// error when it is written.
fn write_ahead(walk: &mut Matcher, trie: &TokTrie) {
    let until = Instant::now() + limits::AHEAD_TIME;
    for _ in 0..limits::AHEAD_TOKENS {
        if walk.is_stopped() || Instant::now() > until {
            return;
        }
        let Ok(mask) = walk.compute_mask_or_eos() else {
            return;
        };
        // Tokens that close a text, a list or an object make the document short.
        let closing = [b"\"", b"}", b"]", b",", b":"].map(|byte| trie.token_id(byte));
        let next = closing
            .into_iter()
            .flatten()
            .find(|token| mask.is_allowed(*token))
            .or_else(|| mask.first_bit_set().map(|token| token as u32));
        match next {
            Some(token) if walk.consume_token(token).is_ok() => {}
            _ => return,
        }
    }
}

/// The crate's message, with its position taken out of the text.
fn explained(text: &str, grammar: &Grammar) -> Error {
    let line = text.lines().next().unwrap_or_default().trim();
    if line.contains("NoExtensionBias") {
        return Error::invalid("no text can match the grammar");
    }
    let (place, message) = match position(line) {
        Some((line, column, rest)) => (grammar.place(line, column), rest),
        None => (None, line),
    };
    let lower = message.to_lowercase();
    let kind = if [
        "too large",
        "too many",
        "too complex",
        "fuel",
        "limit",
        "exceeded",
    ]
    .iter()
    .any(|word| lower.contains(word))
    {
        ErrorKind::TooLarge
    } else if [
        "unimplemented",
        "not supported",
        "unsupported",
        "only supported",
        "disjoint",
    ]
    .iter()
    .any(|word| lower.contains(word))
    {
        ErrorKind::Unsupported
    } else {
        ErrorKind::Invalid
    };
    let error = Error::new(kind, message);
    match place {
        Some(place) => error.at(place),
        None => error,
    }
}

/// `at 3(7): message`, or the same without `at`.
fn position(line: &str) -> Option<(usize, usize, &str)> {
    let rest = line.strip_prefix("at ").unwrap_or(line);
    let (numbers, message) = rest.split_once("): ")?;
    let (line, column) = numbers.split_once('(')?;
    Some((line.parse().ok()?, column.parse().ok()?, message))
}
