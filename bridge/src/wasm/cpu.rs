//! A guest's processor time: measured around every poll of its task, checked at every epoch.
use super::ticker::Ticker;
use super::turns::on_lent_thread;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A slice ends soon after a tick; what a clock on the wall shows beyond that was spent by others on a busy machine.
const LONGEST_SLICE: Duration = Duration::from_millis(4);

/// A turn on a lent thread that needs no excuse.
const SHORT_TURN: Duration = Duration::from_micros(100);

/// What a turn elsewhere makes up for.
const REPAID: Duration = Duration::from_micros(20);

/// What the task (who measures) and the epoch callback (who judges) share.
pub struct CpuMeter {
    start: Instant,
    /// Nanoseconds of finished slices.
    used_ns: AtomicU64,
    /// When the running slice began, in nanoseconds since `start`.
    slice_ns: AtomicU64,
    pub killed: AtomicBool,
    /// Nanoseconds that it held a lent thread for too long, and has not made up for.
    owed_ns: AtomicU64,
}

impl CpuMeter {
    pub fn new() -> Self {
        CpuMeter {
            start: Instant::now(),
            used_ns: AtomicU64::new(0),
            slice_ns: AtomicU64::new(0),
            killed: AtomicBool::new(false),
            owed_ns: AtomicU64::new(0),
        }
    }
    /// Asked at every turn that a lent thread could give it. One that took long there has turns elsewhere until it has
    /// made up for that, so on average it holds up nobody for more than [`SHORT_TURN`] + [`REPAID`] a turn.
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
    /// Time in the slice that is running now.
    pub fn slice(&self) -> Duration {
        Duration::from_nanos(self.now_ns().saturating_sub(self.slice_ns.load(Relaxed)))
    }
    /// All the time, the running slice included.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used_ns.load(Relaxed)) + self.slice().min(LONGEST_SLICE)
    }
}

/// A future whose polls are measured, and seen by the ticker.
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
