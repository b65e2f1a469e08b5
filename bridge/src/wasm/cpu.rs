//! The processor time of a guest. It is measured around every poll of the guest's task and checked at every epoch.
use super::ticker::Ticker;
use super::turns::on_lent_thread;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The longest slice that is counted. A slice ends soon after a tick; if the clock shows more, the operating system ran
/// something else in between.
const LONGEST_SLICE: Duration = Duration::from_millis(4);

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
    /// The debt: nanoseconds beyond [`SHORT_TURN`] on lent threads that are not paid off yet.
    owed_ns: AtomicU64,
}

impl CpuMeter {
    pub fn new(user: u64) -> Self {
        CpuMeter {
            user,
            start: Instant::now(),
            used_ns: AtomicU64::new(0),
            slice_ns: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            owed_ns: AtomicU64::new(0),
        }
    }
    /// Whether the guest may take its next turn on a lent thread; asked once for each such turn. A guest with a debt runs on
    /// executor threads until it has paid. So it holds a lent thread for at most [`SHORT_TURN`] + [`REPAID`] on average.
    pub fn may_use_lent_thread(&self) -> bool {
        let owed = self.owed_ns.load(Relaxed);
        if owed > 0 {
            let repaid = REPAID.as_nanos() as u64;
            self.owed_ns.store(owed.saturating_sub(repaid), Relaxed);
        }
        owed == 0
    }
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
    /// The length of the running slice so far.
    pub fn slice(&self) -> Duration {
        Duration::from_nanos(self.now_ns().saturating_sub(self.slice_ns.load(Relaxed)))
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
        let begin = self.meter.now_ns();
        self.meter.slice_ns.store(begin, Relaxed);
        let polled = self.inner.as_mut().poll(cx);
        let end = self.meter.now_ns();
        let spent = (end - begin).min(LONGEST_SLICE.as_nanos() as u64);
        self.meter.used_ns.fetch_add(spent, Relaxed);
        self.meter.slice_ns.store(end, Relaxed);
        if on_lent_thread() {
            let late = (end - begin).saturating_sub(SHORT_TURN.as_nanos() as u64);
            self.meter.owed_ns.fetch_add(late, Relaxed);
        }
        self.ticker.guest_stops(spent);
        polled
    }
}
