//! The event loop of an inferlet: one thread, futures, and `wasi:io/poll` as the only way to wait.
//!
//! A future that waits for the engine hands its pollable to the reactor and goes to sleep. When nothing can
//! run, the reactor waits for all pollables at once and wakes exactly the futures whose own became ready, so
//! `join!`, `select!`, `join_all` and `FuturesUnordered` behave as anywhere else.
//!
//! `main` itself is a task of wstd's reactor, to which this one lends its pollables. So futures of
//! `wstd` (its timers, its HTTP client, its tasks) can be awaited beside those of this SDK. Where a task of wstd's own
//! polls a future of this SDK (`wstd::runtime::spawn`, `#[wstd::http_server]`), no loop of this one runs: the future
//! then waits in wstd's reactor by itself.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::Write;
use std::pin::{pin, Pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

#[cfg(feature = "wstd-0-6")]
use wasip2::io::poll::Pollable as PollableOfWstd;

use crate::pie::core::inference::FutureOutput;
use crate::pie::plus::steps::{self, Given};
use crate::wasi::io::poll::{poll, Pollable};
#[cfg(not(feature = "wstd-0-6"))]
use crate::wstd::wasip2::io::poll::Pollable as PollableOfWstd;
use crate::wstd::{
    self,
    runtime::{AsyncPollable, WaitFor},
};
use crate::Result;

/// Drives a future of this SDK to its end, and blocks all others meanwhile. Futures of `wstd` make no progress
/// in it: await those in `main`.
///
/// # Panics
/// Panics when every task waits for another one, so that nothing can wake the inferlet.
pub fn block_on<F: Future>(future: F) -> F::Output {
    drive(future)
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
    Ready(Wait::new(Source::Pollable(Some(pollable))))
}

/// Runs the future of an entry point as a task of wstd's reactor. Tasks that it has spawned there and that still
/// run are run to their ends. Returns None when the future waits and nothing is left that could wake it.
pub(crate) fn run<F>(future: F) -> Option<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let _flushed = Flush::at_the_end();
    let given = Rc::new(RefCell::new(None));
    let slot = given.clone();
    wstd::runtime::block_on(async move {
        // As a task of its own: wstd panics if the first one never ends.
        let task = async move { *slot.borrow_mut() = Some(lending(future).await) };
        wstd::runtime::spawn(task).detach();
    });
    given.take()
}

/// Flushes text that was printed without a newline when the inferlet ends, also by a panic. The standard library does
/// not do it: a component is a library, which has no exit handler.
struct Flush;

impl Flush {
    fn at_the_end() -> Flush {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            report(panic);
            let _ = std::io::stdout().flush();
        }));
        Flush
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        let _ = std::io::stdout().flush();
    }
}

/// Polls a future, and lends what it waits for to wstd's reactor.
async fn lending<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let root = Arc::new(Root { woken: AtomicBool::new(true), outer: Mutex::default() });
    let waker = Waker::from(root.clone());
    std::future::poll_fn(|cx| {
        *root.outer.lock().expect("one thread") = Some(cx.waker().clone());
        loop {
            Reactor::wake_those(|reactor| reactor.lend(cx));
            if !root.woken.swap(false, Ordering::Relaxed) {
                return Poll::Pending;
            }
            let polled = polled_here(future.as_mut(), &mut Context::from_waker(&waker));
            if polled.is_ready() {
                return polled;
            }
            if root.woken.load(Ordering::Relaxed) {
                cx.waker().wake_by_ref(); // it woke itself: the other tasks of wstd go first
                return Poll::Pending;
            }
        }
    })
    .await
}

/// Returns None when the future waits and nothing is left that could wake it.
fn drive<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let root = Arc::new(Root { woken: AtomicBool::new(false), outer: Mutex::default() });
    let waker = Waker::from(root.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        root.woken.store(false, Ordering::Relaxed);
        if let Poll::Ready(value) = polled_here(future.as_mut(), &mut context) {
            return Some(value);
        }
        let progressed = if root.woken.load(Ordering::Relaxed) {
            // A task woke itself: poll without waiting, so that a busy task does not starve the others.
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

thread_local!(static IN_LOOP: Cell<bool> = const { Cell::new(false) });

/// Polls a future for a loop of this file, which then wakes what the future waits for.
fn polled_here<F: Future>(future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
    let outer = IN_LOOP.replace(true);
    let polled = future.poll(cx);
    IN_LOOP.set(outer);
    polled
}

struct Root {
    woken: AtomicBool,
    /// Wakes the task of wstd that polls this one.
    outer: Mutex<Option<Waker>>,
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
        if let Some(outer) = &*self.outer.lock().expect("one thread") {
            outer.wake_by_ref();
        }
    }
}

/// The future of [`ready`].
pub struct Ready(Wait);

impl Future for Ready {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll(cx).map(drop)
    }
}

/// Waits for a pass and takes its output. Dropping the future drops the pass.
pub(crate) async fn finish(output: FutureOutput) -> Result<Given> {
    let mut wait = Wait::new(Source::Pass(output, None));
    let done = std::future::poll_fn(|cx| wait.poll(cx)).await;
    done.expect("a pass gives an output or an error")
}

/// A wait for one source. It has no source any more when the wait is over.
struct Wait(Option<Stage>);

enum Stage {
    New(Source),
    /// Waiting, under this key of the reactor.
    Registered(usize),
}

impl Wait {
    fn new(source: Source) -> Self {
        Self(Some(Stage::New(source)))
    }

    /// The output of a pass; None for a pollable.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Given>>> {
        let key = match self.0.take() {
            None => return Poll::Ready(None),
            Some(Stage::New(source)) => {
                REACTOR.with_borrow_mut(|r| r.insert(source, cx.waker().clone()))
            }
            Some(Stage::Registered(key)) => key,
        };
        match REACTOR.with_borrow_mut(|r| r.finish(key, cx)) {
            Some(Source::Given(given)) => Poll::Ready(Some(given)),
            Some(_) => Poll::Ready(None),
            None => {
                self.0 = Some(Stage::Registered(key));
                Poll::Pending
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(Stage::Registered(key)) = self.0 {
            // The pollable must be dropped before the resource that it came from: now, not at the next wait.
            REACTOR.with_borrow_mut(|r| r.remove(key));
        }
    }
}

thread_local!(static REACTOR: RefCell<Reactor> = const { RefCell::new(Reactor::new()) });

/// The source that a future waits for.
enum Source {
    /// None while the pollable is lent to wstd's reactor.
    Pollable(Option<Pollable>),
    /// A pass and its pollable, which is made only if the program also waits for something else.
    Pass(FutureOutput, Option<Pollable>),
    /// The output of a pass.
    Given(Result<Given>),
}

impl Source {
    fn pollable(&mut self) -> &mut Option<Pollable> {
        match self {
            Self::Pollable(pollable) => pollable,
            Self::Pass(output, pollable) => {
                pollable.get_or_insert_with(|| output.pollable());
                pollable
            }
            Self::Given(_) => unreachable!("nobody waits for what is there"),
        }
    }

    /// Waits for this alone.
    fn block(self) -> Self {
        match self {
            Self::Pollable(Some(pollable)) => {
                pollable.block();
                Self::Pollable(Some(pollable))
            }
            pass => pass.take(),
        }
    }

    /// Takes the output of a pass that is ready. Other sources stay as they are.
    fn take(self) -> Self {
        match self {
            Self::Pass(output, pollable) => {
                drop(pollable); // before the pass that it came from
                Self::Given(steps::finish(output))
            }
            other => other,
        }
    }
}

struct Waiter {
    /// The wait of wstd's reactor that has the pollable. It goes before the source that the pollable came from.
    lent: Option<WaitFor>,
    /// None only while the loop blocks on it.
    source: Option<Source>,
    waker: Waker,
    is_ready: bool,
    /// Whether a task of wstd's own waits for it, which no loop of this file wakes.
    is_foreign: bool,
}

impl Waiter {
    /// Lends the pollable to wstd's reactor, which wakes the task of `cx` for it. True if it is ready.
    fn lend(&mut self, cx: &mut Context<'_>) -> bool {
        let Waiter { lent, source, .. } = self;
        let wait = lent.get_or_insert_with(|| {
            let pollable = source.as_mut().and_then(|source| source.pollable().take());
            as_of_wstd(pollable.expect("it is not lent twice")).wait_for()
        });
        Pin::new(wait).poll(cx).is_ready()
    }

    fn mark_ready(&mut self) {
        self.is_ready = true;
        self.lent = None;
        self.source = self.source.take().map(Source::take);
    }
}

/// Everything that some future waits for, by key. Keys are reused.
struct Reactor {
    waiters: Vec<Option<Waiter>>,
    free: Vec<usize>,
}

impl Reactor {
    const fn new() -> Self {
        Self { waiters: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, source: Source, waker: Waker) -> usize {
        let source = Some(source);
        let waiter = Some(Waiter { lent: None, source, waker, is_ready: false, is_foreign: false });
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

    fn remove(&mut self, key: usize) -> Option<Waiter> {
        self.free.push(key);
        self.waiters[key].take()
    }

    /// Removes the waiter if it is ready; otherwise the task of `cx` will be woken.
    fn finish(&mut self, key: usize, cx: &mut Context<'_>) -> Option<Source> {
        let waiter = self.waiters[key].as_mut().expect("registered");
        waiter.is_foreign = !IN_LOOP.get();
        if waiter.is_foreign && !waiter.is_ready && waiter.lend(cx) {
            waiter.mark_ready();
        }
        if waiter.is_ready {
            return self.remove(key)?.source;
        }
        waiter.waker.clone_from(cx.waker());
        None
    }

    /// Wakes the keys that `choose` gives. False if there were none.
    fn wake_those(choose: impl FnOnce(&mut Reactor) -> Vec<usize>) -> bool {
        let wakers: Vec<Waker> = REACTOR.with_borrow_mut(|reactor| {
            let keys = choose(reactor);
            let mut mark = |key: usize| {
                let waiter = reactor.waiters[key].as_mut().expect("chosen among the waiting");
                waiter.mark_ready();
                waiter.waker.clone()
            };
            keys.into_iter().map(&mut mark).collect()
        });
        // Woken outside the borrow, because a waker may call back into the reactor.
        let any = !wakers.is_empty();
        wakers.into_iter().for_each(Waker::wake);
        any
    }

    fn waiting(&mut self) -> impl Iterator<Item = (usize, &mut Waiter)> {
        self.waiters.iter_mut().enumerate().filter_map(|(key, waiter)| match waiter {
            Some(waiter) if !waiter.is_ready && !waiter.is_foreign => Some((key, waiter)),
            _ => None,
        })
    }

    /// Returns the waiters whose pollables are not lent.
    fn own(&mut self) -> impl Iterator<Item = (usize, &mut Waiter)> {
        self.waiting().filter(|(_, waiter)| waiter.lent.is_none())
    }

    fn pollables(&mut self) -> impl Iterator<Item = (usize, &Pollable)> {
        self.own()
            .filter_map(|(key, waiter)| Some((key, waiter.source.as_mut()?.pollable().as_ref()?)))
    }

    /// Lends all pollables to wstd's reactor, which wakes the task of `cx` for them. Returns what is ready.
    fn lend(&mut self, cx: &mut Context<'_>) -> Vec<usize> {
        self.waiting().filter_map(|(key, waiter)| waiter.lend(cx).then_some(key)).collect()
    }

    fn ready_now(&mut self) -> Vec<usize> {
        self.pollables().filter(|(_, pollable)| pollable.ready()).map(|(key, _)| key).collect()
    }

    /// Waits until at least one is ready. Returns nothing if there is nothing to wait for.
    fn wait(&mut self) -> Vec<usize> {
        let mut waiting = self.own();
        let Some((first, only)) = waiting.next() else {
            return Vec::new();
        };
        if waiting.next().is_none() {
            only.source = only.source.take().map(Source::block);
            return vec![first];
        }
        drop(waiting);
        let (keys, pollables): (Vec<usize>, Vec<&Pollable>) = self.pollables().unzip();
        poll(&pollables).into_iter().map(|index| keys[index as usize]).collect()
    }
}

/// The same pollable as a type of wstd's bindings. Both are numbers of one table.
fn as_of_wstd(pollable: Pollable) -> AsyncPollable {
    let handle = pollable.take_handle();
    // SAFETY: the handle is valid, and nothing else owns it from here on.
    AsyncPollable::new(unsafe { PollableOfWstd::from_handle(handle) })
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
