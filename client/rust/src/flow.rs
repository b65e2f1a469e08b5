//! Decides whether to read: while there is room for further events, or while a call waits. So a process
//! whose events the program does not take waits at the server, instead of filling this client's memory.

use crate::limits::{MAX_UNREAD_BYTES, UNREAD_BYTES, UNREAD_EVENTS};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Notify;

const EVENT_OVERHEAD: usize = 128;

#[derive(Default)]
pub struct Flow {
    unread_events: AtomicUsize,
    unread_bytes: AtomicUsize,
    waiters: AtomicUsize,
    wakes: Notify,
}

/// Marks that a call waits, as long as this value lives.
pub struct Waiting<'a>(&'a Flow);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, SeqCst);
    }
}

impl Flow {
    pub fn waiting(&self) -> Waiting<'_> {
        self.waiters.fetch_add(1, SeqCst);
        self.wakes.notify_one();
        Waiting(self)
    }

    /// Counts an event. Returns false if the limit is exceeded and the connection must be closed.
    #[must_use]
    pub fn got(&self, size: usize) -> bool {
        self.unread_events.fetch_add(1, SeqCst);
        self.unread_bytes.fetch_add(size + EVENT_OVERHEAD, SeqCst) <= MAX_UNREAD_BYTES
    }

    pub fn took(&self, size: usize) {
        let left = self.unread_events.fetch_sub(1, SeqCst) - 1;
        self.unread_bytes.fetch_sub(size + EVENT_OVERHEAD, SeqCst);
        if left <= UNREAD_EVENTS / 2 {
            self.wakes.notify_one();
        }
    }

    /// Returns when it is time to read.
    pub async fn ready(&self) {
        while self.is_full() && self.waiters.load(SeqCst) == 0 {
            self.wakes.notified().await;
        }
    }

    fn is_full(&self) -> bool {
        self.unread_events.load(SeqCst) > UNREAD_EVENTS
            || self.unread_bytes.load(SeqCst) > UNREAD_BYTES
    }
}
