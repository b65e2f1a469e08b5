use super::*;
use crate::wasm::cpu::Metered;
use crate::wasm::signal::{pie_signal_fire, pie_signal_free, pie_signal_new, waiter};
use crate::wasm::ticker::Ticker;
use std::sync::mpsc::{channel, Receiver};
use std::thread::{current, ThreadId};
use std::time::Duration;
use wasmtime_wasi::p2::Pollable;

const SOON: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_secs(20);

/// A guest that waits for one signal after the other and reports the thread on which it ran.
struct Fake {
    signals: Vec<*const super::super::Signal>,
    ran: Receiver<ThreadId>,
}

impl Fake {
    fn launch(turns: &Arc<Turns>, signals: usize, busy: Duration) -> Fake {
        let signals: Vec<_> = (0..signals).map(|_| pie_signal_new()).collect();
        let waiters: Vec<_> = signals.iter().map(|s| unsafe { waiter(*s) }).collect();
        let (tell, ran) = channel();
        let meter = Arc::new(CpuMeter::new(0, turns.debts.of(0)));
        let task = Metered {
            inner: Box::pin(async move {
                tell.send(current().id()).unwrap();
                for mut waiter in waiters.into_iter().flatten() {
                    waiter.ready().await;
                    std::thread::sleep(busy);
                    tell.send(current().id()).unwrap();
                }
            }),
            meter: meter.clone(),
            ticker: Arc::new(Ticker::new(vec![])),
        };
        turns.spawn(meter, task);
        let fake = Fake { signals, ran };
        fake.ran.recv_timeout(LATE).unwrap();
        std::thread::sleep(SOON); // until it waits
        fake
    }
    fn fire(&self, signal: usize) {
        unsafe { pie_signal_fire(self.signals[signal]) }
    }
    fn ran_here(&self) -> bool {
        self.ran.recv_timeout(LATE).unwrap() == current().id()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.signals
            .iter()
            .for_each(|s| unsafe { pie_signal_free(*s) });
    }
}

fn executor() -> (tokio::runtime::Runtime, Arc<Turns>) {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let turns = Turns::new(tokio.handle().clone(), tokio.handle().clone());
    (tokio, turns)
}

#[test]
fn a_thread_that_keeps_guests_runs_them() {
    let (_tokio, turns) = executor();
    let guest = Fake::launch(&turns, 2, Duration::ZERO);
    pie_turns_keep(&turns, true);
    assert!(!turns.run_one()); // it waits
    guest.fire(0);
    assert!(guest.ran.recv_timeout(SOON).is_err()); // no other thread may run the guest
    assert!(turns.run_one());
    assert!(guest.ran_here());
    pie_turns_keep(&turns, false);
    guest.fire(1);
    assert!(!guest.ran_here());
}

#[test]
fn kept_guests_can_be_handed_over() {
    let (_tokio, turns) = executor();
    let guest = Fake::launch(&turns, 2, Duration::ZERO);
    pie_turns_keep(&turns, true);
    guest.fire(0);
    pie_turns_hand_over(&turns);
    assert!(!guest.ran_here());
    std::thread::sleep(SOON);
    guest.fire(1);
    pie_turns_keep(&turns, false); // this call hands over, too
    assert!(!guest.ran_here());
}

#[test]
fn a_crowd_gets_help() {
    let (_tokio, turns) = executor();
    let guests: Vec<_> = (0..CROWD)
        .map(|_| Fake::launch(&turns, 1, Duration::ZERO))
        .collect();
    pie_turns_keep(&turns, true);
    guests.iter().for_each(|guest| guest.fire(0));
    assert!(guests.iter().all(|guest| !guest.ran_here()));
    pie_turns_keep(&turns, false);
}

#[test]
fn a_guest_that_held_a_lent_thread_for_long_runs_elsewhere_for_a_while() {
    let (_tokio, turns) = executor();
    let guest = Fake::launch(&turns, 3, Duration::from_millis(2));
    pie_turns_keep(&turns, true);
    guest.fire(0);
    assert!(turns.run_one());
    assert!(guest.ran_here());
    for signal in 1..3 {
        guest.fire(signal);
        assert!(!guest.ran_here());
        std::thread::sleep(SOON);
    }
    pie_turns_keep(&turns, false);
}

#[test]
fn a_guest_that_asks_for_it_takes_its_next_turn_apart() {
    let (_tokio, turns) = executor();
    pie_turns_ask_apart(); // this thread runs no guest
    let meter = Arc::new(CpuMeter::new(0, turns.debts.of(0)));
    let (tell, ran) = channel();
    let task = Metered {
        inner: Box::pin(async move {
            pie_turns_ask_apart();
            for _ in 0..3 {
                tell.send(current().id()).unwrap();
                yield_as_wasmtime_does().await;
            }
        }),
        meter: meter.clone(),
        ticker: Arc::new(Ticker::new(vec![])),
    };
    turns.spawn(meter, task);
    let [first, second, third] = [(); 3].map(|()| ran.recv_timeout(LATE).unwrap());
    assert_ne!(first, second);
    assert_eq!(first, third, "there is one worker");
}

async fn yield_as_wasmtime_does() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

#[test]
fn guests_that_compute_take_turns_by_user() {
    let (_tokio, turns) = executor();
    let (tell, ran) = channel();
    let done = Arc::new(AtomicUsize::new(0));
    // Twenty guests of user 1 and one of user 2 compute for ten turns each.
    for (user, count) in [(1, 20), (2, 1)] {
        for _ in 0..count {
            let (tell, done) = (tell.clone(), done.clone());
            turns.spawn(Arc::new(CpuMeter::new(user, Arc::default())), async move {
                for _ in 0..10 {
                    std::thread::sleep(Duration::from_millis(1));
                    yield_as_wasmtime_does().await;
                }
                tell.send((user, done.fetch_add(1, Relaxed))).unwrap();
            });
        }
    }
    let ends: Vec<(u64, usize)> = (0..21).map(|_| ran.recv_timeout(LATE).unwrap()).collect();
    let place = ends.iter().find(|(user, _)| *user == 2).unwrap().1;
    assert!(
        place < 3,
        "user 2 has a turn after each turn of user 1, but ended as number {place}"
    );
}

#[test]
fn guests_with_much_memory_hold_up_only_one_another() {
    let (_tokio, turns) = executor();
    let meter = Arc::new(CpuMeter::new(1, Arc::default()));
    let (hold, held) = channel::<()>();
    let (tell, ran) = channel();
    let grown = meter.clone();
    let told = tell.clone();
    turns.spawn(meter, async move {
        grown.big.store(true, Relaxed);
        yield_as_wasmtime_does().await;
        told.send(1).unwrap();
        held.recv_timeout(LATE).unwrap(); // one long instruction
        told.send(3).unwrap();
    });
    assert_eq!(ran.recv_timeout(LATE), Ok(1));
    turns.spawn(Arc::new(CpuMeter::new(2, Arc::default())), async move {
        yield_as_wasmtime_does().await;
        tell.send(2).unwrap();
    });
    assert_eq!(ran.recv_timeout(LATE), Ok(2), "the only worker is free");
    hold.send(()).unwrap();
    assert_eq!(ran.recv_timeout(LATE), Ok(3));
}

#[test]
fn long_calls_hold_up_only_the_same_user() {
    let (_tokio, turns) = executor();
    let (tell, ran) = channel();
    let launch = |user: u64, name: &'static str, hold: Option<Receiver<()>>| {
        let (meter, tell) = (Arc::new(CpuMeter::new(user, Arc::default())), tell.clone());
        let task = Metered {
            inner: Box::pin(async move {
                go_apart().await;
                tell.send(name).unwrap();
                if let Some(hold) = hold {
                    hold.recv_timeout(LATE).unwrap(); // a long host call
                }
                yield_as_wasmtime_does().await;
                tell.send("is back").unwrap();
            }),
            meter: meter.clone(),
            ticker: Arc::new(Ticker::new(vec![])),
        };
        turns.spawn(meter, task);
    };
    let (release, hold) = channel::<()>();
    launch(1, "mallory", Some(hold));
    assert_eq!(ran.recv_timeout(LATE), Ok("mallory"));
    launch(1, "mallory's second", None); // one thread for each worker, and there is one
    launch(2, "neighbour", None);
    assert_eq!(ran.recv_timeout(LATE), Ok("neighbour"));
    assert_eq!(ran.recv_timeout(LATE), Ok("is back"));
    assert!(ran.recv_timeout(SOON).is_err());
    release.send(()).unwrap();
    assert_eq!(
        ran.iter().take(3).filter(|name| *name == "is back").count(),
        2
    );
    let begin = std::time::Instant::now();
    while !turns.apart.lock().unwrap().is_empty() && begin.elapsed() < LATE {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(turns.apart.lock().unwrap().is_empty(), "threads are left");
}

#[test]
fn guests_of_another_runtime_are_not_kept() {
    let (_tokio, turns) = executor();
    let (_other_tokio, others) = executor();
    let guest = Fake::launch(&others, 1, Duration::ZERO);
    pie_turns_keep(&turns, true);
    guest.fire(0);
    assert!(!guest.ran_here());
    pie_turns_keep(&turns, false);
}
