//! Grammars and matchers. A grammar and a vocabulary are immutable and shared by threads; a matcher has one owner at a
//! time.
use super::tokenizer::Tokenizer;
use crate::abi::{guarded, pie_out_text, Out, Str, Words};
use pie_text::grammar as text;
use std::sync::{Arc, OnceLock};

/// The checked source of a grammar.
pub struct Grammar(text::Grammar);

impl Grammar {
    pub(super) fn of(grammar: text::Grammar) -> Self {
        Grammar(grammar)
    }
}

/// A tokenizer as grammars see it, with the grammars that were compiled for it.
pub struct GrammarVocabulary {
    tokenizer: Arc<pie_text::tokenizer::Tokenizer>,
    stops: Vec<u32>,
    /// Made when the first grammar is compiled.
    made: OnceLock<Result<text::Vocabulary, text::Error>>,
}

/// One text that follows a grammar.
pub struct Matcher(text::Matcher);

#[repr(C)]
#[derive(Clone, Copy)]
pub enum GrammarKind {
    JsonSchema,
    /// Any JSON; the text is not read.
    Json,
    Regex,
    /// Lark or GBNF.
    Ebnf,
}

impl GrammarVocabulary {
    fn get(&self) -> Result<&text::Vocabulary, text::Error> {
        let made = self
            .made
            .get_or_init(|| text::Vocabulary::new(self.tokenizer.clone(), &self.stops));
        made.as_ref().map_err(Clone::clone)
    }
}

fn broken<T>() -> Result<T, text::Error> {
    Err(text::Error::invalid("the grammar made its compiler fail"))
}

/// Gives the value away, or puts the error's text into `error` and returns null.
unsafe fn give<T>(error: *mut Out, value: Result<T, text::Error>) -> *mut T {
    match value {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(fault) => {
            pie_out_text(error, Str::of(&fault.to_string()));
            std::ptr::null_mut()
        }
    }
}

/// Puts the words into `out`, or the error's text.
unsafe fn answer(out: *mut Out, words: Result<Vec<u32>, text::Error>) -> bool {
    match words {
        Ok(words) => {
            (*out).words = words;
            true
        }
        Err(fault) => {
            pie_out_text(out, Str::of(&fault.to_string()));
            false
        }
    }
}

/// Checks a source, for the user that `owner` stands for. Returns null, and a text in `error`, when it is wrong.
#[no_mangle]
pub unsafe extern "C" fn pie_grammar_new(
    kind: GrammarKind,
    source: Str,
    owner: u64,
    error: *mut Out,
) -> *mut Grammar {
    let made = guarded(broken(), || {
        let source = source.to_string_lossy();
        let grammar = match kind {
            GrammarKind::JsonSchema => text::Grammar::from_json_schema(&source)?,
            GrammarKind::Json => text::Grammar::json(),
            GrammarKind::Regex => text::Grammar::from_regex(&source)?,
            GrammarKind::Ebnf => text::Grammar::from_ebnf(&source)?,
        };
        grammar.check_rules(owner)?;
        Ok(Grammar(grammar))
    });
    give(error, made)
}

#[no_mangle]
pub unsafe extern "C" fn pie_grammar_free(grammar: *mut Grammar) {
    guarded((), || drop(Box::from_raw(grammar)))
}

/// The source as it was given; borrowed until the grammar is freed.
#[no_mangle]
pub unsafe extern "C" fn pie_grammar_source(grammar: *const Grammar) -> Str {
    Str::of((*grammar).0.text())
}

/// The memory that the grammar takes, in bytes.
#[no_mangle]
pub unsafe extern "C" fn pie_grammar_bytes(grammar: *const Grammar) -> usize {
    (*grammar).0.bytes()
}

/// `stops` are the tokens that end a text. The call costs nothing; the first grammar that is compiled pays.
#[no_mangle]
pub unsafe extern "C" fn pie_grammar_vocabulary_new(
    tokenizer: *const Tokenizer,
    stops: Words,
) -> *mut GrammarVocabulary {
    Box::into_raw(Box::new(GrammarVocabulary {
        tokenizer: (*tokenizer).0.clone(),
        stops: stops.as_slice().to_vec(),
        made: OnceLock::new(),
    }))
}

#[no_mangle]
pub unsafe extern "C" fn pie_grammar_vocabulary_free(vocabulary: *mut GrammarVocabulary) {
    guarded((), || drop(Box::from_raw(vocabulary)))
}

/// Compiles the grammar unless it is compiled already. Takes up to seconds. Returns false, and a text in `error`, when it
/// cannot be compiled.
#[no_mangle]
pub unsafe extern "C" fn pie_grammar_compile(
    vocabulary: *const GrammarVocabulary,
    grammar: *const Grammar,
    error: *mut Out,
) -> bool {
    let compiled = guarded(broken(), || (*vocabulary).get()?.compile(&(*grammar).0, 0));
    answer(error, compiled.map(|_| Vec::new()))
}

/// A matcher of a grammar that is compiled already; null if it is not. Never compiles.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_of_compiled(
    vocabulary: *const GrammarVocabulary,
    grammar: *const Grammar,
) -> *mut Matcher {
    let made = guarded(None, || match (*vocabulary).made.get() {
        Some(Ok(made)) => made.kept_matcher(&(*grammar).0),
        _ => None,
    });
    made.map_or(std::ptr::null_mut(), |matcher| {
        Box::into_raw(Box::new(Matcher(matcher)))
    })
}

/// A matcher at the beginning of a text. Compiles the grammar if that was not done, for the user that `owner` stands
/// for. Returns null, and a text in `error`, when it cannot be compiled.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_new(
    vocabulary: *const GrammarVocabulary,
    grammar: *const Grammar,
    owner: u64,
    error: *mut Out,
) -> *mut Matcher {
    let made = guarded(broken(), || {
        (*vocabulary)
            .get()?
            .matcher(&(*grammar).0, owner)
            .map(Matcher)
    });
    give(error, made)
}

/// Another matcher at the same place. Returns null, and a text in `error`, when the matcher is broken.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_fork(
    matcher: *const Matcher,
    error: *mut Out,
) -> *mut Matcher {
    give(
        error,
        guarded(broken(), || Ok(Matcher((*matcher).0.fork()))),
    )
}

#[no_mangle]
pub unsafe extern "C" fn pie_matcher_free(matcher: *mut Matcher) {
    guarded((), || drop(Box::from_raw(matcher)))
}

/// Takes tokens, all of them or none. Returns false, and a text in `error`, when one does not fit.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_accept(
    matcher: *mut Matcher,
    tokens: Words,
    error: *mut Out,
) -> bool {
    let taken = guarded(broken(), || (*matcher).0.accept(tokens.as_slice()));
    answer(error, taken.map(|()| Vec::new()))
}

/// The tokens that may come next go to `out`'s words, as lengths of runs of forbidden and allowed ones in turn.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_mask_runs(matcher: *mut Matcher, out: *mut Out) -> bool {
    answer(out, guarded(broken(), || Ok((*matcher).0.mask()?.runs())))
}

/// The same as bits, one per token, the lowest first.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_mask_bits(matcher: *mut Matcher, out: *mut Out) -> bool {
    answer(
        out,
        guarded(broken(), || Ok((*matcher).0.mask()?.into_bits())),
    )
}

/// The tokens that must come next go to `out`'s words.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_forced(matcher: *mut Matcher, out: *mut Out) {
    (*out).words = guarded(Vec::new(), || (*matcher).0.forced_tokens());
}

/// Takes back the last `tokens` tokens. Returns false, and a text in `error`, when there are fewer.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_rollback(
    matcher: *mut Matcher,
    tokens: usize,
    error: *mut Out,
) -> bool {
    let done = guarded(broken(), || (*matcher).0.rollback(tokens));
    answer(error, done.map(|()| Vec::new()))
}

/// The memory that the text takes, in bytes.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_bytes(matcher: *const Matcher) -> usize {
    (*matcher).0.bytes()
}

/// A number that the compiled grammar of the matcher shares with no other, as long as the matcher lives.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_compiled_id(matcher: *const Matcher) -> usize {
    Arc::as_ptr((*matcher).0.compiled()) as usize
}

/// The memory that the compiled grammar of the matcher takes, in bytes.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_compiled_bytes(matcher: *const Matcher) -> usize {
    guarded(0, || (*matcher).0.compiled().bytes())
}

/// Whether the text has ended.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_is_terminated(matcher: *const Matcher) -> bool {
    guarded(false, || (*matcher).0.is_terminated())
}

/// Goes back to the beginning of a text.
#[no_mangle]
pub unsafe extern "C" fn pie_matcher_reset(matcher: *mut Matcher) {
    guarded((), || (*matcher).0.reset())
}
