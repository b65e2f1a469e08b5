//! The event loop of an inferlet: one thread, futures, and `wasi:io/poll` as the only way to wait.
//!
//! A future that waits for the engine hands its pollable to the reactor and goes to sleep. When nothing can
//! run, the reactor waits for all pollables at once and wakes exactly the futures whose own became ready, so
//! `join!`, `select!`, `join_all` and `FuturesUnordered` behave as anywhere else. The common case, a single
//! pollable, is one host call without any list.

use std::cell::RefCell;
use std::future::Future;
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::wasi::io::poll::{poll, Pollable};

/// Drives a future to its end. `#[inferlet::main]` does this for the entry point.
///
/// # Panics
/// When every task waits for another one, so that nothing could ever wake the inferlet.
pub fn block_on<F: Future>(future: F) -> F::Output {
    run(future)
        .expect("every task waits for another one: nothing is left that could wake the inferlet")
}

/// Lets the other futures of the same `join!` or `select!` run before going on.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Waits until the pollable is ready. Dropping the future gives the pollable back.
pub fn ready(pollable: Pollable) -> Ready {
    Ready(Some(Stage::New(pollable)))
}

/// None when the future waits and nothing is left that could wake it.
pub(crate) fn run<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let root = Arc::new(Root(AtomicBool::new(false)));
    let waker = Waker::from(root.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        root.0.store(false, Ordering::Relaxed);
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let progressed = if root.0.load(Ordering::Relaxed) {
            // A task woke itself: look around without waiting, so that a busy one starves nobody.
            Reactor::wake_those(Reactor::ready_now);
            true
        } else {
            Reactor::wake_those(Reactor::wait)
        };
        if !progressed {
            return None;
        }
    }
}

struct Root(AtomicBool);

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The future of [`ready`].
pub struct Ready(Option<Stage>);

enum Stage {
    New(Pollable),
    /// Waiting, under this key of the reactor.
    Registered(usize),
}

impl Future for Ready {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.0.take() {
            None => Poll::Ready(()),
            Some(Stage::New(pollable)) => {
                let key = REACTOR.with_borrow_mut(|r| r.insert(pollable, cx.waker().clone()));
                self.0 = Some(Stage::Registered(key));
                Poll::Pending
            }
            Some(Stage::Registered(key)) => {
                if REACTOR.with_borrow_mut(|r| r.finish(key, cx.waker())) {
                    return Poll::Ready(());
                }
                self.0 = Some(Stage::Registered(key));
                Poll::Pending
            }
        }
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(Stage::Registered(key)) = self.0 {
            // The pollable must go before the resource it came from, hence now and not at the next wait.
            REACTOR.with_borrow_mut(|r| r.remove(key));
        }
    }
}

thread_local!(static REACTOR: RefCell<Reactor> = const { RefCell::new(Reactor::new()) });

struct Waiter {
    pollable: Pollable,
    waker: Waker,
    is_ready: bool,
}

/// The pollables that somebody waits for, by key. Keys are reused.
struct Reactor {
    waiters: Vec<Option<Waiter>>,
    free: Vec<usize>,
}

impl Reactor {
    const fn new() -> Self {
        Self { waiters: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, pollable: Pollable, waker: Waker) -> usize {
        let waiter = Some(Waiter { pollable, waker, is_ready: false });
        match self.free.pop() {
            Some(key) => {
                self.waiters[key] = waiter;
                key
            }
            None => {
                self.waiters.push(waiter);
                self.waiters.len() - 1
            }
        }
    }

    fn remove(&mut self, key: usize) {
        self.waiters[key] = None;
        self.free.push(key);
    }

    /// Removes the waiter if it is ready; otherwise it will wake `waker`.
    fn finish(&mut self, key: usize, waker: &Waker) -> bool {
        let waiter = self.waiters[key].as_mut().expect("registered");
        if waiter.is_ready {
            self.remove(key);
            return true;
        }
        waiter.waker.clone_from(waker);
        false
    }

    /// Wakes the keys that `choose` gives. False if there were none.
    fn wake_those(choose: impl FnOnce(&Reactor) -> Vec<usize>) -> bool {
        let wakers: Vec<Waker> = REACTOR.with_borrow_mut(|reactor| {
            let keys = choose(reactor);
            let mut mark = |key: usize| {
                let waiter = reactor.waiters[key].as_mut().expect("chosen among the waiting");
                waiter.is_ready = true;
                waiter.waker.clone()
            };
            keys.into_iter().map(&mut mark).collect()
        });
        // Outside the borrow: a waker may run code that comes back here.
        let any = !wakers.is_empty();
        wakers.into_iter().for_each(Waker::wake);
        any
    }

    fn waiting(&self) -> impl Iterator<Item = (usize, &Pollable)> {
        self.waiters.iter().enumerate().filter_map(|(key, waiter)| match waiter {
            Some(waiter) if !waiter.is_ready => Some((key, &waiter.pollable)),
            _ => None,
        })
    }

    fn ready_now(&self) -> Vec<usize> {
        self.waiting().filter(|(_, pollable)| pollable.ready()).map(|(key, _)| key).collect()
    }

    /// Waits until at least one is ready; empty when there is nothing to wait for.
    fn wait(&self) -> Vec<usize> {
        let mut waiting = self.waiting();
        let Some((first, only)) = waiting.next() else {
            return Vec::new();
        };
        let Some(second) = waiting.next() else {
            only.block();
            return vec![first];
        };
        let (keys, pollables): (Vec<usize>, Vec<&Pollable>) =
            [(first, only), second].into_iter().chain(waiting).unzip();
        poll(&pollables).into_iter().map(|index| keys[index as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_what_needs_no_waiting() {
        assert_eq!(block_on(async { 3 }), 3);
        let order = RefCell::new(Vec::new());
        block_on(async {
            futures::join!(
                async {
                    order.borrow_mut().push(1);
                    yield_now().await;
                    order.borrow_mut().push(3);
                },
                async { order.borrow_mut().push(2) }
            )
        });
        assert_eq!(*order.borrow(), [1, 2, 3]);
    }
}
