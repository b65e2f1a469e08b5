//! The processor time of a guest. It is measured around every poll of the guest's task and checked at every epoch.
//!
//! A poll ends soon after a tick, unless the guest is inside a host call or an instruction that takes long, such as the
//! filling of a large memory. That time is charged to the guest in full. The clock alone cannot tell it from time in
//! which the operating system ran something else, so the processor time of the thread decides.
use super::ticker::Ticker;
use super::turns::on_lent_thread;
use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The longest slice that is counted by the clock. Of a longer one, the processor time of the thread is counted.
const LONGEST_SLICE: Duration = Duration::from_millis(4);

/// How old a thread's reading of its processor time may be. Reading it costs a system call, the clock does not.
const READING_LASTS: Duration = Duration::from_millis(1);

thread_local! {
    /// The meter of the guest that this thread runs. Null: it runs none.
    static CURRENT: Cell<*const CpuMeter> = const { Cell::new(std::ptr::null()) };
    /// The time at which this thread last read its processor time, and the value.
    static READING: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// The processor time of this thread so far.
fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Calls `f` with the meter of the guest that this thread runs. False if it runs none.
pub fn current_meter(f: impl FnOnce(&CpuMeter) -> bool) -> bool {
    let meter = CURRENT.get();
    !meter.is_null() && f(unsafe { &*meter }) // `Metered::poll` holds it
}

/// Measures a slice of a guest on this thread.
struct Slice {
    begin: Instant,
    /// An upper bound of the time that this thread spent between its reading and the beginning.
    before: Duration,
    thread_time: Duration,
}

impl Slice {
    fn begin(now: Instant) -> Slice {
        let (read_at, thread_time) = match READING.get() {
            Some((at, time)) if now.duration_since(at) < READING_LASTS => (at, time),
            _ => (now, thread_time()),
        };
        READING.set(Some((read_at, thread_time)));
        Slice {
            begin: now,
            before: now.duration_since(read_at),
            thread_time,
        }
    }
    /// The time that is charged.
    fn end(self, now: Instant) -> Duration {
        let by_the_clock = now.duration_since(self.begin);
        if by_the_clock <= LONGEST_SLICE {
            return by_the_clock;
        }
        let used = thread_time().saturating_sub(self.thread_time + self.before);
        used.clamp(LONGEST_SLICE.min(by_the_clock), by_the_clock)
    }
}

/// A guest whose memories are larger than this, all together, runs on threads for such guests. One instruction can fill or copy
/// all of its memory, and nothing can interrupt it.
pub const BIG_MEMORY_BYTES: usize = 32 << 20;

/// The longest turn on a lent thread without penalty.
const SHORT_TURN: Duration = Duration::from_micros(100);

/// How much of its debt a guest pays off with each turn on an executor thread.
const REPAID: Duration = Duration::from_micros(20);

/// Shared by the task, which measures the time, and the epoch callback, which compares it with the budget.
pub struct CpuMeter {
    /// The number of the guest's user. Guests that compute take turns by user.
    pub user: u64,
    start: Instant,
    /// Nanoseconds of finished slices.
    used_ns: AtomicU64,
    /// When the running slice began, in nanoseconds since `start`.
    slice_ns: AtomicU64,
    pub killed: AtomicBool,
    /// Whether the guest has more than [`BIG_MEMORY_BYTES`].
    pub big: AtomicBool,
    /// Whether the guest runs apart for its next turn.
    apart: AtomicBool,
    debt: Arc<Debt>,
}

/// The debt of a user: nanoseconds beyond [`SHORT_TURN`] on lent threads that are not paid off yet. The guests of a user share
/// it, because a guest that is slow once may be followed by another.
#[derive(Default)]
pub struct Debt(AtomicU64);

/// The debts of the users whose guests run, or that are not paid off.
#[derive(Default)]
pub struct Debts(Mutex<HashMap<u64, Arc<Debt>>>);

/// Debts that no user has any longer are forgotten when there are more than this many.
const MOST_DEBTS: usize = 4_096;

impl Debts {
    pub fn of(&self, user: u64) -> Arc<Debt> {
        let mut debts = self.0.lock().unwrap();
        if debts.len() >= MOST_DEBTS {
            debts.retain(|_, debt| Arc::strong_count(debt) > 1 || debt.0.load(Relaxed) > 0);
        }
        debts.entry(user).or_default().clone()
    }
}

impl CpuMeter {
    pub fn new(user: u64, debt: Arc<Debt>) -> Self {
        CpuMeter {
            user,
            start: Instant::now(),
            used_ns: AtomicU64::new(0),
            slice_ns: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            big: AtomicBool::new(false),
            apart: AtomicBool::new(false),
            debt,
        }
    }
    /// Whether the guest's next turn is apart from those of others; asked once for each turn.
    pub fn runs_apart(&self) -> bool {
        self.big.load(Relaxed) || self.apart.load(Relaxed) && self.apart.swap(false, Relaxed)
    }
    /// Makes the guest's next turn run apart from those of others. Returns false if all its turns do.
    pub fn ask_apart(&self) -> bool {
        let asked = !self.big.load(Relaxed);
        if asked {
            self.apart.store(true, Relaxed);
        }
        asked
    }
    /// Whether the guest may take its next turn on a lent thread; asked once for each such turn. The guests of a user with a
    /// debt run on executor threads until it is paid. So they hold a lent thread for at most [`SHORT_TURN`] + [`REPAID`] on
    /// average.
    pub fn may_use_lent_thread(&self) -> bool {
        let owed = self.debt.0.load(Relaxed);
        if owed > 0 {
            let repaid = REPAID.as_nanos() as u64;
            self.debt.0.store(owed.saturating_sub(repaid), Relaxed);
        }
        owed == 0
    }
    fn ns_at(&self, moment: Instant) -> u64 {
        moment.duration_since(self.start).as_nanos() as u64
    }
    /// The length of the running slice so far.
    pub fn slice(&self) -> Duration {
        let now = self.ns_at(Instant::now());
        Duration::from_nanos(now.saturating_sub(self.slice_ns.load(Relaxed)))
    }
    /// The time of all slices, including the running one.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used_ns.load(Relaxed)) + self.slice().min(LONGEST_SLICE)
    }
}

/// A future that measures its polls and reports them to the ticker.
pub struct Metered<F> {
    pub inner: Pin<Box<F>>,
    pub meter: Arc<CpuMeter>,
    pub ticker: Arc<Ticker>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.ticker.guest_starts();
        let slice = Slice::begin(Instant::now());
        self.meter
            .slice_ns
            .store(self.meter.ns_at(slice.begin), Relaxed);
        let meter = Arc::as_ptr(&self.meter);
        let before = CURRENT.replace(meter);
        let polled = {
            let _restored = Restored(before);
            self.inner.as_mut().poll(cx)
        };
        let end = Instant::now();
        let spent = slice.end(end);
        let spent_ns = spent.as_nanos() as u64;
        self.meter.used_ns.fetch_add(spent_ns, Relaxed);
        self.meter.slice_ns.store(self.meter.ns_at(end), Relaxed);
        let late = spent.saturating_sub(SHORT_TURN);
        if on_lent_thread() && !late.is_zero() {
            let late = late.as_nanos() as u64;
            self.meter.debt.0.fetch_add(late, Relaxed);
        }
        self.ticker.guest_stops(spent_ns);
        polled
    }
}

/// Says on drop, also after a panic, that the thread runs the guest that it ran before.
struct Restored(*const CpuMeter);
impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(30);

    /// The time that a guest is charged for one turn.
    fn charged(turn: impl FnOnce() + Unpin) -> Duration {
        let meter = Arc::new(CpuMeter::new(1, Arc::default()));
        let mut turn = Some(turn);
        let mut guest = Metered {
            inner: Box::pin(std::future::poll_fn(move |_| {
                turn.take().unwrap()();
                Poll::Ready(())
            })),
            meter: meter.clone(),
            ticker: Arc::new(Ticker::new(vec![])),
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(Pin::new(&mut guest).poll(&mut context).is_ready());
        Duration::from_nanos(meter.used_ns.load(Relaxed))
    }

    #[test]
    fn a_long_call_is_charged_in_full() {
        let computes = || {
            let begin = thread_time();
            while thread_time() - begin < LONG {}
        };
        assert!(charged(computes) >= LONG - READING_LASTS);
    }

    #[test]
    fn time_of_other_programs_is_not_charged() {
        assert!(charged(|| std::thread::sleep(LONG)) <= LONGEST_SLICE);
    }

    #[test]
    fn guests_of_a_user_share_a_debt_which_outlives_them() {
        let debts = Debts::default();
        let first = CpuMeter::new(7, debts.of(7));
        first.debt.0.store(REPAID.as_nanos() as u64 * 2, Relaxed);
        drop(first);
        let (next, other) = (CpuMeter::new(7, debts.of(7)), CpuMeter::new(8, debts.of(8)));
        assert!(other.may_use_lent_thread());
        assert!(!next.may_use_lent_thread());
        assert!(!next.may_use_lent_thread());
        assert!(next.may_use_lent_thread(), "the debt is paid");
    }
}
