//! Compilations that are running, so that a grammar that two texts need at the same time is compiled once.
use super::compile::{too_slow, Compiled};
use super::vocabulary::Key;
use super::Error;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

pub type Outcome = Result<Arc<Compiled>, Error>;

#[derive(Default)]
pub struct Running(Mutex<HashMap<Key, Arc<Compilation>>>);

/// One compilation, for those who wait for it.
#[derive(Default)]
pub struct Compilation {
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

/// The caller's part in a compilation.
pub enum Joined<'a> {
    /// No other thread compiles the grammar, so the caller does.
    Own(Lead<'a>),
    /// Another thread compiles it, and the caller waits.
    Others(Arc<Compilation>),
}

/// The duty to compile a grammar. If it is dropped without an outcome, those who wait get an error.
pub struct Lead<'a> {
    running: &'a Running,
    key: Key,
    compilation: Arc<Compilation>,
    is_ended: bool,
}

impl Running {
    pub fn find(&self, key: &Key) -> Option<Arc<Compilation>> {
        self.all().get(key).cloned()
    }

    pub fn join(&self, key: Key) -> Joined<'_> {
        let mut all = self.all();
        if let Some(compilation) = all.get(&key) {
            return Joined::Others(compilation.clone());
        }
        let compilation = Arc::<Compilation>::default();
        all.insert(key.clone(), compilation.clone());
        Joined::Own(Lead {
            running: self,
            key,
            compilation,
            is_ended: false,
        })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Key, Arc<Compilation>>> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Compilation {
    /// Waits for the outcome. Whoever gives up holds up neither the compilation nor the others.
    pub fn wait(&self, until: Instant) -> Outcome {
        let mut outcome = self.outcome.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            let left = until.checked_duration_since(Instant::now());
            let left = left.ok_or_else(too_slow)?;
            outcome = self
                .ended
                .wait_timeout(outcome, left)
                .unwrap_or_else(|e| e.into_inner())
                .0;
        }
    }

    fn end(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(|e| e.into_inner()) = Some(outcome);
        self.ended.notify_all();
    }
}

impl Lead<'_> {
    pub fn end(mut self, outcome: Outcome) {
        self.give(outcome);
    }

    fn give(&mut self, outcome: Outcome) {
        self.is_ended = true;
        self.running.all().remove(&self.key);
        self.compilation.end(outcome);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if !self.is_ended {
            self.give(Err(Error::invalid("the grammar made the compiler fail")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ErrorKind, Kind};
    use super::*;
    use std::time::Duration;

    fn key() -> Key {
        (Kind::Regex, "a+".into())
    }

    fn own(running: &Running) -> Lead<'_> {
        match running.join(key()) {
            Joined::Own(lead) => lead,
            Joined::Others(_) => panic!("no thread compiles it"),
        }
    }

    fn error(outcome: Outcome) -> Error {
        outcome.err().expect("an error")
    }

    #[test]
    fn those_who_wait_get_the_outcome() {
        let running = Running::default();
        let lead = own(&running);
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let Joined::Others(compilation) = running.join(key()) else {
                        panic!("it is compiled already")
                    };
                    let until = Instant::now() + Duration::from_secs(60);
                    scope.spawn(move || error(compilation.wait(until)))
                })
                .collect();
            lead.end(Err(Error::invalid("wrong")));
            for waiter in waiting {
                assert_eq!(waiter.join().unwrap().text, "wrong");
            }
        });
        assert!(running.find(&key()).is_none(), "it has ended");
    }

    #[test]
    fn who_waits_too_long_gives_up_alone() {
        let running = Running::default();
        let lead = own(&running);
        let compilation = running.find(&key()).unwrap();
        let late = error(compilation.wait(Instant::now()));
        assert_eq!(late.kind, ErrorKind::TooSlow);
        drop(lead);
        let failed = error(compilation.wait(Instant::now()));
        assert_eq!(failed.text, "the grammar made the compiler fail");
        own(&running).end(Err(Error::invalid("wrong")));
    }
}
