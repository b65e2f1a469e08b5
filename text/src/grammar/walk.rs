//! A parser of the crate on its way through a text. When the text has ended, another text can begin with it: its lexer
//! keeps the states that it has found, which are most of the cost of a mask.
use super::limits;
use llguidance::Matcher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

pub struct Walk {
    pub state: Matcher,
    /// What the lexer has cost so far. Forks share the lexer.
    lexer_cost: Arc<AtomicU64>,
    /// Whether texts before this one used the lexer.
    pub is_used: bool,
}

impl Walk {
    pub fn new(state: Matcher) -> Self {
        Walk {
            state,
            lexer_cost: Arc::default(),
            is_used: false,
        }
    }

    pub fn fork(&self) -> Self {
        Walk {
            state: self.state.clone(),
            lexer_cost: self.lexer_cost.clone(),
            is_used: self.is_used,
        }
    }

    /// Counts what the last mask cost.
    pub fn count_mask(&self) {
        if let Ok(stats) = self.state.last_step_stats() {
            self.lexer_cost
                .fetch_add(stats.lexer_cost, Ordering::Relaxed);
        }
    }

    /// Goes back to the beginning. False if the walk is of no use for another text: it has failed, a fork still uses the
    /// lexer, or the lexer has become too large.
    pub fn go_back(&mut self) -> bool {
        self.is_used = true;
        Arc::strong_count(&self.lexer_cost) == 1
            && self.lexer_cost.load(Ordering::Relaxed) <= limits::IDLE_COST
            && !self.state.is_error()
            && self.state.reset().is_ok()
    }
}
