//! Which thread polls a guest's task: a thread of the executor, or a lent thread.
//!
//! A step thread wakes guests and then has nothing to do until they have run. So it lends itself: it runs the guests that it has
//! woken, and no other thread has to be woken for them. Threads of a device that wait for its next batch do the same.
//!
//! A guest with much memory can hold a thread for a long time with one instruction, which fills or copies all of it. A host call
//! with long arguments does the same. Such guests and calls run apart, on threads of their user, so only the operating system
//! decides how long others wait for them.
use super::cpu::{current_meter, CpuMeter, Debts};
use super::runtime::Runtime;
use crate::abi::guarded;
use async_task::{Runnable, ScheduleInfo, WithInfo};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::ptr::null;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

type Turn = Runnable<Arc<CpuMeter>>;

thread_local! {
    /// The `Turns` whose guests this thread keeps for lent threads when it wakes them. Null: it keeps none.
    static KEEPS_FOR: Cell<*const Turns> = const { Cell::new(null()) };
    /// Whether this thread is lent: it runs a guest that was kept.
    static LENT: Cell<bool> = const { Cell::new(false) };
}

/// For each group of this many waiting guests, a thread of the executor is woken to help.
const CROWD: usize = 64;

pub struct Turns {
    tokio: tokio::runtime::Handle,
    /// Where the threads of guests that run apart come from.
    own_threads: tokio::runtime::Handle,
    /// Guests that were woken and kept, and have not run yet.
    woken: Mutex<VecDeque<Turn>>,
    /// The length of `woken`, to be read without the lock.
    waiting: AtomicUsize,
    computing: Mutex<Computing>,
    /// Guests that run apart, by user.
    apart: Mutex<HashMap<u64, Apart>>,
    pub debts: Debts,
}

/// Guests that used up their time and want more. Users take turns, and so do the guests of one user. They use at most one
/// task of the executor for each of its threads, so a guest that has just been woken waits behind few of them, however many
/// there are.
#[derive(Default)]
struct Computing {
    lines: HashMap<u64, VecDeque<Turn>>,
    /// The users who have a line; the next one first.
    order: VecDeque<u64>,
    /// Tasks of the executor that run them.
    tasks: usize,
}

/// The guests of one user that run apart: those with much memory, and those that are about to make a long host call. Each user
/// has threads of their own for them, because nothing interrupts such a guest.
#[derive(Default)]
struct Apart {
    line: VecDeque<Turn>,
    /// Threads that run them.
    threads: usize,
}

impl Computing {
    fn push(&mut self, turn: Turn) {
        let user = turn.metadata().user;
        let line = self.lines.entry(user).or_default();
        if line.is_empty() {
            self.order.push_back(user);
        }
        line.push_back(turn);
    }
    fn pop(&mut self) -> Option<Turn> {
        let user = self.order.pop_front()?;
        let line = self.lines.get_mut(&user)?;
        let turn = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&user);
        } else {
            self.order.push_back(user);
        }
        turn
    }
}

impl Turns {
    pub fn new(tokio: tokio::runtime::Handle, own_threads: tokio::runtime::Handle) -> Arc<Turns> {
        Arc::new(Turns {
            tokio,
            own_threads,
            woken: Mutex::default(),
            waiting: AtomicUsize::new(0),
            computing: Mutex::default(),
            apart: Mutex::default(),
            debts: Debts::default(),
        })
    }

    /// Runs a guest's task to its end, one turn at a time.
    pub fn spawn(
        self: &Arc<Turns>,
        meter: Arc<CpuMeter>,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let turns = self.clone();
        let schedule = move |turn: Turn, info: ScheduleInfo| turns.schedule(turn, info);
        let (first, task) = async_task::Builder::new()
            .metadata(meter)
            .spawn(move |_| task, WithInfo(schedule));
        task.detach();
        self.hand(first);
    }

    fn schedule(self: &Arc<Turns>, turn: Turn, info: ScheduleInfo) {
        if turn.metadata().runs_apart() {
            self.run_apart(turn);
        } else if info.woken_while_running && on_lent_thread() {
            self.hand(turn); // it leaves the lent thread
        } else if info.woken_while_running {
            self.compute(turn); // it has just had a turn, so other guests run first
        } else if KEEPS_FOR.get() == Arc::as_ptr(self) && turn.metadata().may_use_lent_thread() {
            let waiting = {
                let mut woken = self.woken.lock().unwrap();
                woken.push_back(turn);
                self.waiting.store(woken.len(), Relaxed);
                woken.len()
            };
            if waiting % CROWD == 0 {
                self.help();
            }
        } else {
            self.hand(turn);
        }
    }

    fn hand(&self, turn: Turn) {
        self.tokio.spawn(async move {
            turn.run();
        });
    }

    fn compute(self: &Arc<Turns>, turn: Turn) {
        if !self.line_up(turn) {
            return;
        }
        let turns = self.clone();
        self.tokio.spawn(async move {
            loop {
                tokio::task::yield_now().await;
                let Some(turn) = turns.next_computing() else {
                    break;
                };
                turn.run();
            }
        });
    }

    fn run_apart(self: &Arc<Turns>, turn: Turn) {
        let user = turn.metadata().user;
        {
            let mut all = self.apart.lock().unwrap();
            let apart = all.entry(user).or_default();
            apart.line.push_back(turn);
            if apart.threads >= self.tokio.metrics().num_workers() {
                return;
            }
            apart.threads += 1;
        }
        let turns = self.clone();
        self.own_threads.spawn_blocking(move || {
            let _inside = turns.tokio.enter(); // its timers and sockets are those of the guest
            while let Some(turn) = turns.next_apart(user) {
                turn.run();
            }
        });
    }

    /// The user's next guest that runs apart. Without one, the calling thread ends.
    fn next_apart(&self, user: u64) -> Option<Turn> {
        let mut all = self.apart.lock().unwrap();
        let apart = all.get_mut(&user)?;
        let turn = apart.line.pop_front();
        if turn.is_none() {
            apart.threads -= 1;
            if apart.threads == 0 {
                all.remove(&user);
            }
        }
        turn
    }

    /// Adds a guest to its user's line. Returns whether a further task has to run the guests.
    fn line_up(&self, turn: Turn) -> bool {
        let mut computing = self.computing.lock().unwrap();
        computing.push(turn);
        let more = computing.tasks < self.tokio.metrics().num_workers();
        computing.tasks += usize::from(more);
        more
    }

    /// The guest that computes next. Without one, the calling task ends.
    fn next_computing(&self) -> Option<Turn> {
        let mut computing = self.computing.lock().unwrap();
        let turn = computing.pop();
        computing.tasks -= usize::from(turn.is_none());
        turn
    }

    fn next(&self) -> Option<Turn> {
        if self.waiting.load(Relaxed) == 0 {
            return None;
        }
        let mut woken = self.woken.lock().unwrap();
        let next = woken.pop_front();
        self.waiting.store(woken.len(), Relaxed);
        next
    }

    /// Lets a thread of the executor run guests that were kept.
    fn help(self: &Arc<Turns>) {
        let turns = self.clone();
        self.tokio.spawn(async move {
            while let Some(turn) = turns.next() {
                turn.run();
            }
        });
    }

    fn run_one(&self) -> bool {
        let Some(turn) = self.next() else {
            return false;
        };
        let _inside = self.tokio.enter();
        LENT.set(true);
        turn.run();
        LENT.set(false);
        true
    }

    fn hand_over(&self) {
        while let Some(turn) = self.next() {
            self.hand(turn);
        }
    }
}

/// Whether this thread is lent to the guest that it runs.
pub fn on_lent_thread() -> bool {
    LENT.get()
}

/// Moves the guest to a thread of the executor. Called before work that may take long.
pub async fn leave_lent_thread() {
    if on_lent_thread() {
        tokio::task::yield_now().await;
    }
}

/// Moves the guest to a thread of its user. Called before a host call that nothing interrupts and that may take many
/// milliseconds. The guest goes back at its next turn.
pub async fn go_apart() {
    let mut asked = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut asked, true) || !current_meter(CpuMeter::ask_apart) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await
}

/// The turns of a runtime, for a thread that lends itself. Free them with `pie_turns_free`.
#[no_mangle]
pub extern "C" fn pie_turns_new(runtime: &Runtime) -> *const Turns {
    Arc::into_raw(runtime.turns.clone())
}

/// Says whether this thread keeps the guests that it wakes. A thread that keeps guests must run them or hand them over before
/// it sleeps.
#[no_mangle]
pub extern "C" fn pie_turns_keep(turns: &Turns, keep: bool) {
    KEEPS_FOR.set(if keep { turns } else { null() });
    if !keep {
        guarded((), || turns.hand_over());
    }
}

/// Runs one of the guests that were kept on this thread. Returns false if there is none.
#[no_mangle]
pub extern "C" fn pie_turns_run_one(turns: &Turns) -> bool {
    guarded(false, || turns.run_one())
}

/// Lets the guest that this thread runs, if there is one, take its next turn on a thread of its user.
#[no_mangle]
pub extern "C" fn pie_turns_ask_apart() {
    guarded((), || {
        current_meter(CpuMeter::ask_apart);
    })
}

/// Hands the guests that were kept to the executor.
#[no_mangle]
pub extern "C" fn pie_turns_hand_over(turns: &Turns) {
    guarded((), || turns.hand_over())
}

#[no_mangle]
pub unsafe extern "C" fn pie_turns_free(turns: *const Turns) {
    guarded((), || drop(Arc::from_raw(turns)))
}

#[cfg(test)]
mod tests;
