//! A signal: C++ fires it from any thread, and a guest awaits it as a `wasi:io/poll` pollable.
use crate::abi::guarded;
use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::Poll;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::p2::{DynPollable, Pollable};

/// Shared by C++, which fires it, and the pollables of one instance, which wait for it. Firing it after the instance has ended
/// does nothing.
#[derive(Default)]
pub struct Signal {
    fired: AtomicBool,
    waker: AtomicWaker,
}

pub struct SignalPollable(pub Arc<Signal>);

impl SignalPollable {
    /// Does the same as `ready` without an allocation.
    pub async fn fired(&self) {
        let signal = &self.0;
        poll_fn(|cx| {
            if signal.fired.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            signal.waker.register(cx.waker());
            // The signal may have fired before the waker was registered.
            if signal.fired.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for SignalPollable {
    async fn ready(&mut self) {
        self.fired().await
    }
}

/// Makes a pollable of a signal of C++. For null, the pollable is always ready.
///
/// # Safety
/// C++ holds a reference to the signal during this call.
pub unsafe fn subscribe(
    table: &mut ResourceTable,
    signal: *const Signal,
) -> wasmtime::Result<Resource<DynPollable>> {
    let signal = if signal.is_null() {
        Arc::new(Signal {
            fired: AtomicBool::new(true),
            waker: AtomicWaker::new(),
        })
    } else {
        Arc::increment_strong_count(signal);
        Arc::from_raw(signal)
    };
    let source = table.push(SignalPollable(signal))?;
    wasmtime_wasi::p2::subscribe(table, source)
}

/// Makes an object that waits for a signal of C++. Returns nothing for null.
///
/// # Safety
/// As for [`subscribe`].
pub unsafe fn waiter(signal: *const Signal) -> Option<SignalPollable> {
    if signal.is_null() {
        return None;
    }
    Arc::increment_strong_count(signal);
    Some(SignalPollable(Arc::from_raw(signal)))
}

/// Makes a signal that has not fired. Free it with `pie_signal_free`.
#[no_mangle]
pub extern "C" fn pie_signal_new() -> *const Signal {
    Arc::into_raw(Arc::new(Signal::default()))
}

/// Makes the signal ready and wakes the guest that waits for it.
#[no_mangle]
pub unsafe extern "C" fn pie_signal_fire(signal: *const Signal) {
    guarded((), || {
        (*signal).fired.store(true, Ordering::Release);
        (*signal).waker.wake();
    })
}

/// Makes the signal unready again.
#[no_mangle]
pub unsafe extern "C" fn pie_signal_clear(signal: *const Signal) {
    (*signal).fired.store(false, Ordering::Release);
}

#[no_mangle]
pub unsafe extern "C" fn pie_signal_free(signal: *const Signal) {
    guarded((), || drop(Arc::from_raw(signal)))
}
