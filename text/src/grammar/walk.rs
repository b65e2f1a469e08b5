//! A parser of the crate on its way through a text, and the lexer that it shares with others. A lexer keeps the states
//! that it has found, which are most of the cost of a mask, so texts of one grammar share a few lexers.
use super::lexer_masks::LexerMasks;
use super::limits;
use llguidance::{Matcher, TokenParser};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// A parser at the beginning of a text, with a lexer that the walks from here share.
pub struct Origin {
    parser: TokenParser,
    masks: Arc<LexerMasks>,
    lexer: Arc<Lexer>,
}

/// The state of a lexer. The walks that use it hold a reference.
#[derive(Default)]
struct Lexer {
    /// Its cost so far.
    cost: AtomicU64,
    /// Whether a text has used it.
    is_used: AtomicBool,
    /// A walk that used it has failed: its limits may be exceeded.
    has_failed: AtomicBool,
}

impl Origin {
    /// `parser` is at the beginning of a text, and no other walk uses its lexer.
    pub fn new(mut parser: TokenParser, masks: LexerMasks) -> Self {
        let masks = Arc::new(masks);
        parser.bias_computer = masks.clone();
        Origin {
            parser,
            masks,
            lexer: Arc::default(),
        }
    }

    /// The same with a copy of the lexer.
    pub fn copy(&self) -> Self {
        let masks = self.masks.copy(); // before the lexer
        let copy = Origin::new(self.parser.deep_clone(), masks);
        let is_used = self.lexer.is_used.load(Ordering::Relaxed);
        copy.lexer.is_used.store(is_used, Ordering::Relaxed);
        copy.lexer
            .cost
            .store(self.lexer.cost.load(Ordering::Relaxed), Ordering::Relaxed);
        copy
    }

    pub fn start(&self) -> Walk {
        Walk {
            state: Matcher::new(Ok(self.parser.clone())),
            masks: self.masks.clone(),
            lexer: self.lexer.clone(),
            was_used: self.lexer.is_used.swap(true, Ordering::Relaxed),
            seen_cost: 0,
        }
    }

    /// A parser that shares the lexer, but is not counted: for the compilation.
    pub fn parser(&self) -> TokenParser {
        self.parser.clone()
    }

    /// The walks that use the lexer now.
    pub fn walks(&self) -> usize {
        Arc::strong_count(&self.lexer) - 1
    }

    /// Whether another text should begin here. A lexer that has cost too much takes too much memory.
    pub fn is_good(&self) -> bool {
        self.lexer.cost.load(Ordering::Relaxed) <= limits::LEXER_COST
            && !self.lexer.has_failed.load(Ordering::Relaxed)
    }
}

pub struct Walk {
    pub state: Matcher,
    pub masks: Arc<LexerMasks>,
    lexer: Arc<Lexer>,
    was_used: bool,
    /// The cost of the lexer at the last mask.
    seen_cost: u64,
}

impl Walk {
    pub fn fork(&self) -> Self {
        Walk {
            state: self.state.clone(),
            masks: self.masks.clone(),
            lexer: self.lexer.clone(),
            was_used: self.was_used,
            seen_cost: self.seen_cost,
        }
    }

    /// Takes back the last tokens. The crate keeps its last mask by the number of rows, which is not enough: other tokens
    /// may lead to as many rows.
    pub fn go_back(&mut self, tokens: usize) -> Result<(), impl std::fmt::Display> {
        self.state.invalidate_bias_cache();
        self.state.rollback(tokens)
    }

    /// Counts what the last mask cost. The crate tells what the lexer has cost since this walk's mask before, for all
    /// walks.
    pub fn count_mask(&mut self) {
        if let Ok(stats) = self.state.last_step_stats() {
            self.seen_cost += stats.lexer_cost;
            self.lexer.cost.fetch_max(self.seen_cost, Ordering::Relaxed);
        }
    }

    pub fn is_accepting(&mut self) -> bool {
        self.state.is_accepting().unwrap_or_else(|_| {
            self.fail();
            false
        })
    }

    /// Whether the grammar leaves no choice of the next byte.
    pub fn is_forced(&mut self) -> bool {
        let bytes = self.state.compute_ff_bytes();
        if self.state.is_error() {
            self.fail();
        }
        !bytes.is_empty()
    }

    /// Notes that a step has failed. Returns whether other texts may be the reason, because they used the lexer.
    pub fn fail(&self) -> bool {
        self.lexer.has_failed.store(true, Ordering::Relaxed);
        self.was_used || Arc::strong_count(&self.lexer) > 2 // the origin and this walk
    }
}
