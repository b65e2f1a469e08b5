//! An instance: one run of a program in its own store, from launch to `on_exit`.
use super::cpu::{CpuMeter, Metered};
use super::program::Program;
use super::runtime::{ExitKind, Runtime};
use super::stdio::Stdio;
use super::store::{new_store, Guest};
use super::turns::leave_lent_thread;
use crate::abi::{guarded, GuestPtr, Str};
use crate::host::Host;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use tokio::sync::Notify;
use wasmtime::component::ResourceTableError;
use wasmtime::{Store, WasmBacktrace};

/// The handle of an instance that C++ holds.
pub struct Instance {
    meter: Arc<CpuMeter>,
    cancel: Arc<Notify>,
}

struct Launch {
    program: Arc<Program>,
    guest: GuestPtr,
    input: String,
    folders: [Option<(String, u64)>; 2], // /scratch, /data
    meter: Arc<CpuMeter>,
    cancel: Arc<Notify>,
}
unsafe impl Send for Launch {}
unsafe impl Sync for Launch {}

type Ended = (ExitKind, String);

impl Launch {
    fn trapped(text: impl Into<String>) -> Ended {
        (ExitKind::Trapped, text.into())
    }

    /// Waits until an instance may start, runs the guest, and drops its store before it returns.
    async fn run(&self, runtime: &Runtime) -> Ended {
        let Ok(_place) = runtime.places.acquire().await else {
            return Self::trapped("the engine is stopping");
        };
        let stdio = Stdio::new(
            self.guest,
            runtime.callbacks,
            runtime.limits.max_output_bytes,
        );
        let code = self.program.code();
        let store = new_store(
            code.pre.engine(),
            Host {
                table: runtime.host,
                guest: self.guest,
            },
            &runtime.limits,
            self.folders.each_ref().map(|folder| {
                let (dir, max_bytes) = folder.as_ref()?;
                Some((dir.as_str(), *max_bytes))
            }),
            &stdio,
            self.meter.clone(),
        );
        let mut store = match store {
            Ok(store) => store,
            Err(e) => {
                return Self::trapped(format!("cannot prepare the folders of the inferlet: {e:#}"))
            }
        };
        let result: wasmtime::Result<Result<String, String>> = async {
            let instance = code.pre.instantiate_async(&mut store).await?;
            let run = instance
                .get_typed_func::<(&str,), (Result<String, String>,)>(&mut store, &code.run)?;
            Ok(run.call_async(&mut store, (&self.input,)).await?.0)
        }
        .await;
        leave_lent_thread().await; // freeing the guest's memory takes time
        match result {
            Ok(Ok(text)) => (ExitKind::Returned, text),
            Ok(Err(text)) => (ExitKind::Failed, text),
            Err(e) if self.meter.killed.load(Relaxed) => (ExitKind::Cancelled, format!("{e}")),
            Err(e) => Self::trapped(describe(&e, &store, &stdio)),
        }
    }

    async fn run_until_cancelled(&self, runtime: &Runtime) -> Ended {
        let mut stopping = runtime.stopping.subscribe();
        let cancelled = (ExitKind::Cancelled, "cancelled".to_string());
        tokio::select! {
            biased;
            ended = self.run(runtime) => ended,
            () = self.cancel.notified() => cancelled,
            _ = stopping.wait_for(|stop| *stop) => cancelled,
        }
    }
}

/// How many frames of a backtrace an error shows.
const SHOWN_FRAMES: usize = 16;

/// Describes a trap: its cause, the end of the guest's stderr, and the backtrace.
fn describe(error: &wasmtime::Error, store: &Store<Guest>, stdio: &Stdio) -> String {
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return format!("the inferlet called exit({}) instead of returning", exit.0);
    }
    let guest = store.data();
    let mut text = match &guest.refused {
        Some(refused) => refused.clone(),
        None if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) => format!(
            "handle limit: the inferlet holds {} WASI handles (pollables, streams, files)",
            guest.table.max_capacity()
        ),
        None => error.root_cause().to_string(),
    };
    let last_words = stdio.stderr_tail();
    if !last_words.is_empty() {
        text += &format!("\nthe end of its stderr:\n{last_words}");
    }
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        text += "\nwasm backtrace:";
        for (i, name) in frames(backtrace).iter().take(SHOWN_FRAMES).enumerate() {
            text += &format!("\n  {i}: {name}");
        }
    }
    text
}

/// The functions on the stack, innermost first, without those that only belong to a Rust panic.
fn frames(backtrace: &WasmBacktrace) -> Vec<String> {
    let names = backtrace.frames().iter().map(|frame| {
        let name = frame.func_name().unwrap_or("<unnamed>");
        format!("{:#}", rustc_demangle::demangle(name))
    });
    let mut names: Vec<String> = names.take(2 * SHOWN_FRAMES).collect();
    let panicking = |name: &String| name.contains("panicking::") || name.contains("begin_unwind");
    if let Some(last) = names.iter().rposition(panicking) {
        names.drain(..=last);
    }
    names
}

/// A folder of the host, and how many bytes it may hold.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Folder {
    pub dir: Str,
    pub max_bytes: u64,
}

/// Runs a program. Every callback and host call gets `guest` until `on_exit`. The guest sees the folders as /scratch and /data; a
/// folder with an empty name is not there. Free the handle with `pie_instance_free`.
#[no_mangle]
pub unsafe extern "C" fn pie_instance_launch(
    program: *const Program,
    guest: GuestPtr,
    input: Str,
    scratch: Folder,
    data: Folder,
) -> *mut Instance {
    guarded(std::ptr::null_mut(), || {
        Arc::increment_strong_count(program);
        let program = Arc::from_raw(program);
        let runtime = program.runtime.clone();
        let given = |folder: Folder| {
            let dir = folder.dir.to_string_lossy();
            (!dir.is_empty()).then_some((dir, folder.max_bytes))
        };
        let launch = Launch {
            program,
            guest,
            input: input.to_string_lossy(),
            folders: [given(scratch), given(data)],
            meter: Arc::new(CpuMeter::new()),
            cancel: Arc::new(Notify::new()),
        };
        let handle = Instance {
            meter: launch.meter.clone(),
            cancel: launch.cancel.clone(),
        };
        runtime.live.enter();
        let turns = runtime.turns.clone();
        turns.spawn(launch.meter.clone(), async move {
            let launch = launch; // moves it whole: only the whole is `Send`
            let metered = Metered {
                inner: Box::pin(launch.run_until_cancelled(&runtime)),
                meter: launch.meter.clone(),
                ticker: runtime.ticker.clone(),
            };
            let (kind, text) = AssertUnwindSafe(metered)
                .catch_unwind()
                .await
                .unwrap_or_else(|_| {
                    Launch::trapped(
                        "the engine failed inside this inferlet's host call (a bug in Pie)",
                    )
                });
            (runtime.callbacks.on_exit)(launch.guest, kind, Str::of(&text));
            // The runtime must not be dropped on one of its own threads, so its reference is dropped before `leave`.
            let live = runtime.live.clone();
            drop((launch, runtime));
            live.leave();
        });
        Box::into_raw(Box::new(handle))
    })
}

/// Cancels the instance: at once while it waits, within a tick while it computes. `on_exit` is still called.
#[no_mangle]
pub unsafe extern "C" fn pie_instance_cancel(instance: &Instance) {
    guarded((), || {
        instance.meter.killed.store(true, Relaxed);
        instance.cancel.notify_one();
    })
}

/// Drops the handle. The instance continues to run.
#[no_mangle]
pub unsafe extern "C" fn pie_instance_free(instance: *mut Instance) {
    guarded((), || drop(Box::from_raw(instance)))
}
