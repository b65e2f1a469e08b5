//! Which compilations may run. At most [`limits::COMPILING`] run within their time, and one of each owner. A compilation
//! that exceeded its time goes on until its fuel is spent: it is counted to its owner until then, and delays no other
//! owner.
use super::limits;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// The owner of grammars that no user asked for. It may run several compilations.
pub const NO_OWNER: u64 = 0;

pub struct Permits {
    running: Mutex<Running>,
    changed: Condvar,
}

/// The right to compile, until it is dropped.
pub struct Permit {
    permits: &'static Permits,
    number: u64,
}

struct Running {
    next: u64,
    all: BTreeMap<u64, Compilation>,
}

struct Compilation {
    owner: u64,
    late: bool,
}

impl Running {
    fn has_place(&self, owner: u64) -> bool {
        let in_time = self.all.values().filter(|one| !one.late).count();
        let owned = self.all.values().filter(|one| one.owner == owner).count();
        let most = if owner == NO_OWNER {
            limits::COMPILING
        } else {
            1
        };
        in_time < limits::COMPILING && owned < most
    }
}

impl Permits {
    pub const fn new() -> Self {
        Permits {
            running: Mutex::new(Running {
                next: 0,
                all: BTreeMap::new(),
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits for a place. None if there was none in time.
    pub fn wait(&'static self, owner: u64, until: Instant) -> Option<Permit> {
        let mut running = self.running();
        while !running.has_place(owner) {
            let left = until.checked_duration_since(Instant::now())?;
            running = self
                .changed
                .wait_timeout(running, left)
                .unwrap_or_else(|e| e.into_inner())
                .0;
        }
        running.next += 1;
        let number = running.next;
        running
            .all
            .insert(number, Compilation { owner, late: false });
        Some(Permit {
            permits: self,
            number,
        })
    }

    /// Says that a compilation has exceeded its time. Does nothing if it has ended meanwhile.
    pub fn mark_late(&self, number: u64) {
        if let Some(one) = self.running().all.get_mut(&number) {
            one.late = true;
        }
        self.changed.notify_all();
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Permit {
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.running().all.remove(&self.number);
        self.permits.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_compilation_holds_up_its_owner_only() {
        let permits: &'static Permits = Box::leak(Box::new(Permits::new()));
        let at_once = |owner| permits.wait(owner, Instant::now());
        let late = at_once(1).unwrap();
        assert!(at_once(1).is_none(), "an owner compiles one at a time");
        let neighbour = at_once(2).unwrap();
        assert!(at_once(3).is_none(), "all places are taken");
        permits.mark_late(late.number());
        assert!(at_once(1).is_none(), "its owner waits for it");
        let third = at_once(3).unwrap();
        drop((neighbour, third));
        drop(late);
        assert!(at_once(1).is_some());
    }

    #[test]
    fn without_an_owner_several_run() {
        let permits: &'static Permits = Box::leak(Box::new(Permits::new()));
        let all: Vec<_> = (0..limits::COMPILING)
            .map(|_| permits.wait(NO_OWNER, Instant::now()).unwrap())
            .collect();
        assert!(permits.wait(NO_OWNER, Instant::now()).is_none());
        drop(all);
    }
}
