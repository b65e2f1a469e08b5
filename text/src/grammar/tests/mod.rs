//! Grammars on a vocabulary of bytes, where every step of a mask can be seen.
mod bad;
mod conditions;
mod forced;
mod gbnf;
mod masks;
mod matchers;
mod model;
mod schemas;

use super::*;
use crate::tokenizer::Tokenizer;
use std::sync::{Arc, LazyLock};

/// Ends a text.
const END: u32 = 256;

static BYTES: LazyLock<Vocabulary> = LazyLock::new(|| {
    let tokenizer = Tokenizer::from_bytes(&["<|end|>", "<|call|>"]).unwrap();
    Vocabulary::new(Arc::new(tokenizer), &[END]).unwrap()
});

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())])
    }
}

fn tokens(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

/// Whether the masks let `text` pass, byte by byte, and then let it end. What is taken is what the mask allows.
fn passes(grammar: &Grammar, text: &str) -> Result<bool, Error> {
    let mut matcher = BYTES.matcher(grammar, 0)?;
    for token in tokens(text) {
        let allowed = matcher.mask()?.allows(token);
        let taken = matcher.accept(&[token]);
        assert_eq!(
            allowed,
            taken.is_ok(),
            "the mask and the step differ in {text:?} at {}: {taken:?}",
            matcher.taken()
        );
        if !allowed {
            return Ok(false);
        }
    }
    let may_end = matcher.mask()?.allows(END);
    assert_eq!(may_end, matcher.is_complete(), "at the end of {text:?}");
    Ok(may_end)
}

fn check(what: &str, grammar: &Grammar, accepted: &[&str], rejected: &[&str]) {
    for (texts, expected) in [(accepted, true), (rejected, false)] {
        for text in texts {
            match passes(grammar, text) {
                Ok(passed) => assert_eq!(passed, expected, "{what}: {text:?}"),
                Err(error) => panic!("{what}: {text:?}: {error}"),
            }
        }
    }
}

fn error(made: Result<Grammar, Error>) -> Error {
    match made.and_then(|grammar| BYTES.compile(&grammar, 0).map(|_| ())) {
        Ok(()) => panic!("it compiles"),
        Err(error) => error,
    }
}
