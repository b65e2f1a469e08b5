//! Finds the place in a grammar that a text has reached, so that texts at the same place share a mask.
//!
//! A mask depends on the rows of the parser and on the state of the lexer. The rows change only where a lexeme ends, and
//! then they follow from the rows before, from the lexer's state and from the tokens. So rows get a number by these three,
//! and texts have the same rows if they have the same number, whatever their words are. A number is of use for one lexer.
//!
//! The crate calls [`super::lexer_masks`] on the same thread, but passes none of our data to it. So a matcher stores
//! its question in a thread-local variable, and finds the answer there.
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// The rows of a parser, by number, and the state of its lexer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Spot {
    pub rows: u64,
    pub state: u32,
    /// Whether the lexeme was read further since these rows were found. An expression such as `(ab)*` leads back to the
    /// state in which it begins, but a text can end only after a lexeme that has begun.
    pub is_inside: bool,
}

impl Spot {
    /// A value that no state of a lexer has.
    pub const BEGINNING: Spot = Spot {
        rows: 0,
        state: u32::MAX,
        is_inside: false,
    };
}

/// Which spot do these tokens lead to?
pub struct Question {
    pub from: Spot,
    pub tokens: Vec<u32>,
}

#[derive(Clone, Copy)]
pub struct Answer {
    pub spot: Spot,
    /// Whether the mask of the spot was known.
    pub is_known: bool,
}

thread_local! {
    static QUESTION: Cell<Option<Question>> = const { Cell::new(None) };
    static ANSWER: Cell<Option<Answer>> = const { Cell::new(None) };
    static RECENT: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static FORCED: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// Notes the last tokens of the text whose mask is computed next on this thread.
pub fn set_recent(tokens: &[u32]) {
    RECENT.with_borrow_mut(|recent| {
        recent.clear();
        recent.extend_from_slice(tokens);
    });
    FORCED.take();
}

pub fn with_recent<T>(work: impl FnOnce(&[u32]) -> T) -> T {
    RECENT.with_borrow(|recent| work(recent))
}

/// Notes the tokens that must come next, of which the mask has the first one.
pub fn set_forced(tokens: Vec<u32>) {
    FORCED.set(tokens);
}

pub fn take_forced() -> Vec<u32> {
    FORCED.take()
}

/// Asks a question of the code that computes the next mask on this thread. None: there is no question.
pub fn ask(question: Option<Question>) {
    QUESTION.set(question);
    ANSWER.set(None);
}

pub fn take_question() -> Option<Question> {
    QUESTION.take()
}

pub fn answer(answer: Answer) {
    ANSWER.set(Some(answer));
}

/// Ends the question. None if it was not answered: no mask was computed, or the text is not at a spot.
pub fn take_answer() -> Option<Answer> {
    QUESTION.set(None);
    ANSWER.take()
}

/// The spots that a text has passed, with the number of its tokens there.
#[derive(Clone, Default)]
pub struct Trail(Vec<(usize, Spot)>);

impl Trail {
    /// `tokens` are all tokens of the text.
    pub fn question(&self, tokens: &[u32]) -> Question {
        let (taken, from) = self.0.last().copied().unwrap_or((0, Spot::BEGINNING));
        Question {
            from,
            tokens: tokens[taken..].to_vec(),
        }
    }

    pub fn add(&mut self, taken: usize, spot: Spot) {
        if self.0.last() != Some(&(taken, spot)) {
            self.0.push((taken, spot));
        }
    }

    /// Forgets what lies after the first `taken` tokens.
    pub fn go_back(&mut self, taken: usize) {
        let kept = self.0.partition_point(|(at, _)| *at <= taken);
        self.0.truncate(kept);
    }
}

/// The numbers of rows.
#[derive(Clone, Default)]
pub struct Rows {
    numbers: HashMap<(Spot, Box<[u32]>), u64>,
    /// Never given twice, so that a spot of a trail stays valid when its number is forgotten.
    last: u64,
    bytes: usize,
}

impl Rows {
    /// The number of the rows that these tokens lead to from the spot, where they end a lexeme. At most `most` bytes are
    /// kept.
    pub fn number(&mut self, question: Question, most: usize) -> u64 {
        let key = (question.from, question.tokens.into_boxed_slice());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let bytes = size_of_val(&key) + size_of_val(&key.1[..]) + size_of::<u64>();
        if self.bytes + bytes > most {
            self.numbers.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.last += 1;
        self.numbers.insert(key, self.last);
        self.last
    }
}
