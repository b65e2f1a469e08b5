//! Where guests take their turns: on the executor's threads, or on a thread that was lent. A step thread lends itself:
//! it wakes guests and then has nothing to do until they come back, so it runs them itself and no other thread has to
//! be woken for it.
use super::cpu::CpuMeter;
use super::runtime::Runtime;
use crate::abi::guarded;
use async_task::{Runnable, ScheduleInfo, WithInfo};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::ptr::null;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

type Turn = Runnable<Arc<CpuMeter>>;

thread_local! {
    /// Whom this thread is lent to.
    static LENT_TO: Cell<*const Turns> = const { Cell::new(null()) };
}

/// From so many on that wait for a lent thread, another one helps.
const SHARED: usize = 3;

pub struct Turns {
    tokio: tokio::runtime::Handle,
    /// Woken on a lent thread, and not yet run.
    woken: Mutex<VecDeque<Turn>>,
    helpers: AtomicUsize,
}

impl Turns {
    pub fn new(tokio: tokio::runtime::Handle) -> Arc<Turns> {
        Arc::new(Turns {
            tokio,
            woken: Mutex::default(),
            helpers: AtomicUsize::new(0),
        })
    }

    /// Run a guest's task to its end, a turn at a time.
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
        if info.woken_while_running {
            // It has just had its turn: others first.
            self.tokio.spawn(async move {
                tokio::task::yield_now().await;
                turn.run();
            });
        } else if LENT_TO.get() == Arc::as_ptr(self) && turn.metadata().may_use_lent_thread() {
            let waiting = {
                let mut woken = self.woken.lock().unwrap();
                woken.push_back(turn);
                woken.len()
            };
            if waiting >= SHARED && self.helpers.load(Relaxed) == 0 {
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

    fn next(&self) -> Option<Turn> {
        self.woken.lock().unwrap().pop_front()
    }

    /// An executor's thread takes some of what waits for the lent one.
    fn help(self: &Arc<Turns>) {
        self.helpers.fetch_add(1, Relaxed);
        let turns = self.clone();
        self.tokio.spawn(async move {
            while let Some(turn) = turns.next() {
                turn.run();
            }
            turns.helpers.fetch_sub(1, Relaxed);
        });
    }

    fn run_one(&self) -> bool {
        let Some(turn) = self.next() else {
            return false;
        };
        let _inside = self.tokio.enter();
        turn.run();
        true
    }

    fn hand_over(&self) {
        while let Some(turn) = self.next() {
            self.hand(turn);
        }
    }
}

/// Is this thread lent to guests?
pub fn on_lent_thread() -> bool {
    !LENT_TO.get().is_null()
}

/// Go on elsewhere, before something that takes its time.
pub async fn leave_lent_thread() {
    if on_lent_thread() {
        tokio::task::yield_now().await;
    }
}

/// A runtime's turns, for a thread that lends itself. Free them with `pie_turns_free`.
#[no_mangle]
pub extern "C" fn pie_turns_new(runtime: &Runtime) -> *const Turns {
    Arc::into_raw(runtime.turns.clone())
}

/// Lend this thread, or take it back. Until then it must run, or hand over, whom it wakes.
#[no_mangle]
pub extern "C" fn pie_turns_lend(turns: &Turns, lent: bool) {
    LENT_TO.set(if lent { turns } else { null() });
    if !lent {
        guarded((), || turns.hand_over());
    }
}

/// Let one of those that were woken have a turn here, on a lent thread. False: there is none.
#[no_mangle]
pub extern "C" fn pie_turns_run_one(turns: &Turns) -> bool {
    guarded(false, || turns.run_one())
}

/// This thread has something better to do: the others run who is left.
#[no_mangle]
pub extern "C" fn pie_turns_hand_over(turns: &Turns) {
    guarded((), || turns.hand_over())
}

#[no_mangle]
pub unsafe extern "C" fn pie_turns_free(turns: *const Turns) {
    guarded((), || drop(Arc::from_raw(turns)))
}
