//! The ticker: a thread that advances the engines' epochs while guests compute, so that no guest computes for long without
//! being checked.
//!
//! A device computes on all cores, and a thread that wakes takes one of them away. So the ticker checks less and less often
//! while it finds no guest running, and sleeps once no guest has run for a while.
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use wasmtime::Engine;

/// How long a guest computes before other guests get a turn.
pub const TICK: Duration = Duration::from_millis(2);

/// The longest pause between two checks while all guests have short turns. A guest that starts to compute is noticed after at
/// most this time.
const LONGEST_PAUSE: Duration = Duration::from_millis(16);

/// The time without a running guest after which the ticker sleeps.
const REST: Duration = Duration::from_millis(100);
/// How long it sleeps unless it is woken.
const ASLEEP: Duration = Duration::from_secs(1);

pub struct Ticker {
    engines: Vec<Engine>,
    /// The number of guests that are running.
    running: AtomicU32,
    /// The number of turns so far.
    turns: AtomicU64,
    /// Nanoseconds of the turns that ended since the last epoch.
    spent_ns: AtomicU64,
    asleep: AtomicBool,
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Ticker {
    pub fn new(engines: Vec<Engine>) -> Ticker {
        Ticker {
            engines,
            running: AtomicU32::new(0),
            turns: AtomicU64::new(0),
            spent_ns: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    pub fn guest_starts(&self) {
        self.running.fetch_add(1, SeqCst);
        if self.asleep.load(SeqCst) {
            let _guard = self.stopped.lock();
            self.wake.notify_one();
        }
    }

    /// Adds up the time of turns. Otherwise a guest that happens not to run whenever the ticker checks would never be noticed.
    pub fn guest_stops(&self, spent_ns: u64) {
        let all_ns = self.spent_ns.fetch_add(spent_ns, Relaxed) + spent_ns;
        if all_ns > TICK.as_nanos() as u64 {
            self.tick();
        }
        self.turns.fetch_add(1, Relaxed);
        self.running.fetch_sub(1, Relaxed);
    }

    pub fn stop(&self) {
        if let Ok(mut stopped) = self.stopped.lock() {
            *stopped = true;
        }
        self.wake.notify_all();
    }

    /// The body of the ticker's thread. Returns when the ticker is stopped.
    pub fn run(&self) {
        let mut pause = TICK;
        let mut at_rest = Duration::ZERO;
        let mut seen_turns = 0;
        let Ok(mut stopped) = self.stopped.lock() else {
            return;
        };
        while !*stopped {
            self.asleep.store(at_rest > REST, SeqCst);
            let sleeps = at_rest > REST && self.running.load(SeqCst) == 0;
            let longest = if sleeps { ASLEEP } else { pause };
            let Ok((guard, _)) = self.wake.wait_timeout(stopped, longest) else {
                return;
            };
            stopped = guard;
            self.asleep.store(false, SeqCst);
            let busy = self.running.load(SeqCst) > 0;
            let turns = self.turns.load(Relaxed);
            at_rest = match busy || turns != seen_turns {
                true => Duration::ZERO,
                false => at_rest + longest,
            };
            seen_turns = turns;
            if busy {
                self.tick();
            }
            pause = match busy {
                true => TICK,
                false => (pause * 2).min(LONGEST_PAUSE),
            };
        }
    }

    /// Starts a new epoch. Every running guest then calls its epoch callback.
    fn tick(&self) {
        self.spent_ns.store(0, Relaxed);
        self.engines.iter().for_each(Engine::increment_epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    const LATE: Duration = Duration::from_secs(20);

    struct Watched {
        ticker: Arc<Ticker>,
        thread: Option<std::thread::JoinHandle<()>>,
    }

    impl Watched {
        fn new() -> Watched {
            let ticker = Arc::new(Ticker::new(vec![Engine::default()]));
            let run = ticker.clone();
            let thread = Some(std::thread::spawn(move || run.run()));
            Watched { ticker, thread }
        }
        fn eventually(&self, what: impl Fn(&Ticker) -> bool) -> bool {
            let start = Instant::now();
            while !what(&self.ticker) {
                if start.elapsed() > LATE {
                    return false;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            true
        }
        /// Whether the epoch advances: a tick resets `spent_ns`.
        fn ticks(&self) -> bool {
            self.ticker.spent_ns.store(1, SeqCst);
            self.eventually(|ticker| ticker.spent_ns.load(SeqCst) == 0)
        }
        fn falls_asleep(&self) -> bool {
            self.eventually(|ticker| ticker.asleep.load(SeqCst))
        }
    }

    impl Drop for Watched {
        fn drop(&mut self) {
            self.ticker.stop();
            self.thread.take().unwrap().join().unwrap();
        }
    }

    #[test]
    fn a_guest_that_computes_is_noticed_again_and_again() {
        let watched = Watched::new();
        watched.ticker.guest_starts();
        assert!((0..3).all(|_| watched.ticks()));
        watched.ticker.guest_stops(0);
    }

    #[test]
    fn it_sleeps_when_no_guest_runs_and_wakes_when_one_does() {
        let watched = Watched::new();
        for _ in 0..2 {
            assert!(watched.falls_asleep());
            watched.ticker.guest_starts();
            assert!(watched.ticks());
            watched.ticker.guest_stops(0);
        }
    }

    #[test]
    fn short_turns_add_up() {
        let ticker = Ticker::new(vec![]);
        for _ in 0..3 {
            ticker.guest_starts();
            ticker.guest_stops(TICK.as_nanos() as u64 * 2 / 5);
        }
        assert_eq!(ticker.spent_ns.load(SeqCst), 0);
        ticker.guest_starts();
        ticker.guest_stops(TICK.as_nanos() as u64 * 2 / 5);
        assert!(ticker.spent_ns.load(SeqCst) > 0);
    }
}
