//! The work that the check of a grammar may take. Sources are not trusted, and some steps over them cost more than their
//! size: copies within copies, or each part compared with each other. Such a step spends what it costs before it is done.
use super::{limits, Error, ErrorKind};
use serde_json::Value as Json;
use std::cell::Cell;
use std::time::Instant;

/// The rest of the budget of one check. Once it is spent, every further step fails.
pub struct Budget {
    left: Cell<usize>,
    /// The cost since the clock was last read.
    unread: Cell<usize>,
    until: Instant,
}

/// The clock is read each time that this much was spent.
const READ_CLOCK: usize = 50_000;

impl Default for Budget {
    fn default() -> Self {
        Budget::until(Instant::now() + limits::CHECK_TIME)
    }
}

impl Budget {
    pub fn until(until: Instant) -> Self {
        Budget {
            left: Cell::new(limits::CHECK_WORK),
            unread: Cell::new(0),
            until,
        }
    }

    /// A budget of `left` units of work, for tests.
    #[cfg(test)]
    pub fn of(work: usize) -> Self {
        let budget = Budget::default();
        budget.left.set(work);
        budget
    }

    /// Takes the cost of a step, in units of about ten nanoseconds or a hundred bytes.
    pub fn spend(&self, units: usize) -> Result<(), Error> {
        if self.take(units) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::TooSlow,
            "the grammar takes too long to check: make it smaller",
        ))
    }

    /// The same for steps that only find out less without it. Whoever uses their result asks `check` whether it is whole.
    pub fn take(&self, units: usize) -> bool {
        let left = self.left.get();
        let unread = self.unread.get().saturating_add(units);
        self.unread.set(unread);
        let is_late = unread >= READ_CLOCK && {
            self.unread.set(0);
            Instant::now() > self.until
        };
        let is_enough = units <= left && !is_late;
        self.left.set(if is_enough { left - units } else { 0 });
        is_enough
    }

    pub fn check(&self) -> Result<(), Error> {
        match self.left.get() {
            0 => self.spend(1),
            _ => Ok(()),
        }
    }

    /// Takes the cost of a copy, in memory more than in time.
    pub fn copy(&self, json: &Json) -> Result<(), Error> {
        self.spend(cost(json))
    }
}

fn cost(json: &Json) -> usize {
    const PART: usize = 10;
    match json {
        Json::String(text) => PART + text.len() / 16,
        Json::Array(items) => PART + items.iter().map(cost).sum::<usize>(),
        Json::Object(entries) => {
            let of_entry = |(key, value): (&String, &Json)| PART + key.len() / 16 + cost(value);
            PART + entries.iter().map(of_entry).sum::<usize>()
        }
        _ => PART,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn what_is_spent_stays_spent() {
        let budget = Budget::of(100);
        assert!(budget.spend(60).is_ok() && budget.check().is_ok());
        assert!(budget.spend(60).is_err());
        assert_eq!(budget.spend(1).unwrap_err().kind, ErrorKind::TooSlow);
        assert!(budget.check().is_err());
    }

    #[test]
    fn time_is_spent_too() {
        let late = Budget::until(Instant::now() - Duration::from_millis(1));
        assert!(late.spend(1).is_ok(), "the clock is read seldom");
        assert!(late.spend(READ_CLOCK).is_err());
    }

    #[test]
    fn copies_cost_their_size() {
        assert!(Budget::of(100).copy(&json!({"a": [1, 2]})).is_ok());
        assert!(Budget::of(100).copy(&json!("x".repeat(10_000))).is_err());
        assert!(Budget::of(100).copy(&Json::from(vec![0; 100])).is_err());
    }
}
