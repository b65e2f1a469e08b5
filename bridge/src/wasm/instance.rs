//! An instance: one run of a program in its own store, from launch to `on_exit`.
use super::accounts::Quota;
use super::cpu::{CpuMeter, Metered};
use super::http_in::{pass_response, BodySender, GuestLink, Incoming, RequestHead};
use super::http_out::HttpOut;
use super::program::{Code, Program};
use super::removal::remove_tree;
use super::runtime::{ExitKind, Runtime};
use super::stdio::Stdio;
use super::store::{new_store, Guest};
use super::trap::describe;
use super::turns::leave_lent_thread;
use crate::abi::{guarded, GuestPtr, Str};
use crate::host::Host;
use futures_util::future::join;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use tokio::sync::{oneshot, Notify};
use wasmtime::Store;
use wasmtime_wasi_http::p2::bindings::ProxyPre;
use wasmtime_wasi_http::WasiHttpView;

/// The handle of an instance that C++ holds.
pub struct Instance {
    meter: Arc<CpuMeter>,
    cancel: Arc<Notify>,
    /// Where the body of its request goes, if it answers one.
    body: Option<BodySender>,
}

/// The purpose of an instance.
enum Task {
    /// `run` with this input.
    Run(String),
    /// An answer to this request, which is taken when the instance starts.
    Serve(Box<Mutex<Option<Result<Incoming, String>>>>),
}

struct Launch {
    program: Arc<Program>,
    guest: GuestPtr,
    link: GuestLink,
    task: Task,
    folders: [Option<Quota>; 2], // /scratch, /data
    /// Whether it is too late to make the folders. The lock is held while they are made.
    folders_gone: Arc<Mutex<bool>>,
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
        if let Err(e) = self.make_folders(runtime).await {
            return Self::trapped(format!("cannot make the folders of the inferlet: {e}"));
        }
        let stdio = Stdio::new(
            self.guest,
            runtime.callbacks,
            runtime.limits.max_output_bytes,
        );
        let code = self.program.code();
        let incoming = match &self.task {
            Task::Run(_) => None,
            Task::Serve(request) => request.lock().unwrap().take(),
        };
        let incoming = match incoming.transpose() {
            Ok(incoming) => incoming,
            Err(e) => return Self::trapped(format!("the request is malformed: {e}")),
        };
        let store = new_store(
            code.pre.engine(),
            Host {
                table: runtime.host,
                guest: self.guest,
            },
            &runtime.limits,
            runtime.callbacks,
            &self.folders,
            &stdio,
            self.meter.clone(),
            HttpOut::new(
                runtime.http.clone(),
                runtime.callbacks,
                self.guest,
                self.meter.user,
            ),
            incoming.as_ref().map_or("", |incoming| &incoming.input),
        );
        let store = match store {
            Ok(store) => store,
            Err(e) => {
                return Self::trapped(format!("cannot prepare the folders of the inferlet: {e:#}"))
            }
        };
        match (&self.task, incoming, &code.http) {
            (Task::Run(input), ..) => self.call_run(store, &code, input, &stdio).await,
            (_, Some(incoming), Some(http)) => self.serve(store, http, incoming, &stdio).await,
            _ => Self::trapped("the component does not export wasi:http/incoming-handler"),
        }
    }

    /// Makes the guest's folders. A busy disk may take long for that, so a thread that runs no guests does it.
    async fn make_folders(&self, runtime: &Runtime) -> std::io::Result<()> {
        let dirs: Vec<String> = self
            .folders
            .iter()
            .flatten()
            .map(|f| f.dir.clone())
            .collect();
        if dirs.is_empty() {
            return Ok(());
        }
        let gone = self.folders_gone.clone();
        let turn = runtime.folder_turn(self.meter.user).await;
        let make = move || {
            let _turn = turn; // until it is done, whoever waits for it
            let gone = gone.lock().unwrap();
            if *gone {
                return Ok(()); // the guest was cancelled meanwhile
            }
            dirs.iter().try_for_each(|dir| make_private_folder(dir))
        };
        runtime.own_threads.spawn_blocking(make).await?
    }

    /// Removes the guest's scratch folder, also on a thread that runs no guests. There may be a hundred thousand files
    /// in it.
    async fn remove_scratch(&self, runtime: &Runtime) {
        if let Some(scratch) = &self.folders[0] {
            let (dir, gone) = (scratch.dir.clone(), self.folders_gone.clone());
            let turn = runtime.folder_turn(self.meter.user).await;
            let remove = move || {
                let _turn = turn;
                *gone.lock().unwrap() = true;
                remove_tree(Path::new(&dir))
            };
            let _ = runtime.own_threads.spawn_blocking(remove).await;
        }
    }

    async fn call_run(
        &self,
        mut store: Store<Guest>,
        code: &Code,
        input: &str,
        stdio: &Stdio,
    ) -> Ended {
        let result: wasmtime::Result<Result<String, String>> = async {
            let Some(run) = &code.run else {
                wasmtime::bail!("the component does not export `pie:<package-name>/run`");
            };
            let instance = code.pre.instantiate_async(&mut store).await?;
            let run =
                instance.get_typed_func::<(&str,), (Result<String, String>,)>(&mut store, run)?;
            Ok(run.call_async(&mut store, (input,)).await?.0)
        }
        .await;
        leave_lent_thread().await; // freeing the guest's memory takes time
        match result {
            Ok(Ok(text)) => (ExitKind::Returned, text),
            Ok(Err(text)) => (ExitKind::Failed, text),
            Err(e) => self.failed(&e, &store, stdio),
        }
    }

    /// Answers one request. The response is passed on while the guest still writes it.
    async fn serve(
        &self,
        mut store: Store<Guest>,
        http: &ProxyPre<Guest>,
        incoming: Incoming,
        stdio: &Stdio,
    ) -> Ended {
        let (tell, told) = oneshot::channel();
        let call = async move {
            let result: wasmtime::Result<()> = async {
                let Incoming {
                    request, scheme, ..
                } = incoming;
                let request = store
                    .data_mut()
                    .http()
                    .new_incoming_request(scheme, request)?;
                let out = store.data_mut().http().new_response_outparam(tell)?;
                let proxy = http.instantiate_async(&mut store).await?;
                let handler = proxy.wasi_http_incoming_handler();
                handler.call_handle(&mut store, request, out).await
            }
            .await;
            leave_lent_thread().await;
            // The store is dropped with this block, and with it the requests that the guest has not sent.
            result.err().map(|e| self.failed(&e, &store, stdio))
        };
        match join(call, pass_response(told, &self.link)).await {
            (Some(ended), _) => ended,
            (None, Ok(())) => (ExitKind::Returned, String::new()),
            (None, Err(text)) => (ExitKind::Failed, text),
        }
    }

    fn failed(&self, error: &wasmtime::Error, store: &Store<Guest>, stdio: &Stdio) -> Ended {
        if self.meter.killed.load(Relaxed) {
            return (ExitKind::Cancelled, format!("{error}"));
        }
        let quotes_panic = matches!(self.task, Task::Run(_));
        let lines = self.program.lines.as_ref();
        Self::trapped(describe(error, store, stdio, lines, quotes_panic))
    }

    async fn run_until_cancelled(&self, runtime: &Runtime) -> Ended {
        let mut stopping = runtime.stopping.subscribe();
        let mut run = pin!(self.run(runtime));
        tokio::select! {
            biased;
            ended = &mut run => return ended,
            () = self.cancel.notified() => (),
            _ = stopping.wait_for(|stop| *stop) => (),
        }
        // The guest's store is dropped with `run`, and that takes time.
        leave_lent_thread().await;
        (ExitKind::Cancelled, "cancelled".to_string())
    }
}

/// Makes a folder that only this user of the machine can enter, and those that it lies in.
fn make_private_folder(dir: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir)
}

/// A folder of the host, and how many bytes it may hold.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Folder {
    pub dir: Str,
    pub max_bytes: u64,
    /// How many bytes the folder that it lies in may hold, and the one above that. 0: those are not counted.
    pub max_bytes_above: [u64; 2],
}

/// Runs a program. Every callback and host call gets `guest` until `on_exit`. The guest sees the folders as /scratch and /data; a
/// folder with an empty name is not there. Guests of the same `user` share that user's processor time. Free the handle with `pie_instance_free`.
#[no_mangle]
pub unsafe extern "C" fn pie_instance_launch(
    program: *const Program,
    guest: GuestPtr,
    input: Str,
    scratch: Folder,
    data: Folder,
    user: u64,
) -> *mut Instance {
    guarded(std::ptr::null_mut(), || {
        let task = |_: GuestLink| (Task::Run(input.to_string_lossy()), None);
        launch(program, guest, task, [scratch, data], user)
    })
}

/// Lets a program answer an HTTP request. The body follows by `pie_instance_pass_body`. All else is as for
/// `pie_instance_launch`.
#[no_mangle]
pub unsafe extern "C" fn pie_instance_serve(
    program: *const Program,
    guest: GuestPtr,
    head: &RequestHead,
    scratch: Folder,
    data: Folder,
    user: u64,
) -> *mut Instance {
    guarded(std::ptr::null_mut(), || {
        let task = |link: GuestLink| {
            let (incoming, body) = Incoming::new(head, link);
            (
                Task::Serve(Box::new(Mutex::new(Some(incoming)))),
                Some(body),
            )
        };
        launch(program, guest, task, [scratch, data], user)
    })
}

/// Passes a piece of the request's body, and the end of the body if `last`. After a piece that is not empty, the next one may
/// follow when `on_body_taken` was called.
#[no_mangle]
pub unsafe extern "C" fn pie_instance_pass_body(instance: &Instance, piece: Str, last: bool) {
    let Some(body) = &instance.body else {
        return;
    };
    if piece.len > 0 {
        body.pass(piece.as_bytes());
    }
    if last {
        body.end();
    }
}

unsafe fn launch(
    program: *const Program,
    guest: GuestPtr,
    task: impl FnOnce(GuestLink) -> (Task, Option<BodySender>),
    folders: [Folder; 2],
    user: u64,
) -> *mut Instance {
    Arc::increment_strong_count(program);
    let program = Arc::from_raw(program);
    let runtime = program.runtime.clone();
    let given = |folder: Folder| {
        let dir = folder.dir.to_string_lossy();
        (!dir.is_empty()).then_some(Quota {
            dir,
            max_bytes: folder.max_bytes,
            max_bytes_above: folder.max_bytes_above,
        })
    };
    let link = GuestLink::new(guest, runtime.callbacks);
    let (task, body) = task(link.clone());
    let launch = Launch {
        program,
        guest,
        link,
        task,
        folders: folders.map(given),
        folders_gone: Arc::default(),
        meter: Arc::new(CpuMeter::new(user, runtime.turns.debts.of(user))),
        cancel: Arc::new(Notify::new()),
    };
    let handle = Instance {
        meter: launch.meter.clone(),
        cancel: launch.cancel.clone(),
        body,
    };
    runtime.live.enter();
    let turns = runtime.turns.clone();
    turns.spawn(launch.meter.clone(), async move {
        let launch = launch; // captures the whole struct: only the whole struct is `Send`
        let metered = Metered {
            inner: Box::pin(launch.run_until_cancelled(&runtime)),
            meter: launch.meter.clone(),
            ticker: runtime.ticker.clone(),
        };
        let (kind, text) = AssertUnwindSafe(metered)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                Launch::trapped("the engine failed inside this inferlet's host call (a bug in Pie)")
            });
        leave_lent_thread().await; // what the guest holds in the engine is freed in `on_exit`
        launch.link.cut();
        launch.remove_scratch(&runtime).await;
        (runtime.callbacks.on_exit)(launch.guest, kind, Str::of(&text));
        // The runtime must not be dropped on one of its own threads, so its reference is dropped before `leave`.
        let live = runtime.live.clone();
        drop((launch, runtime));
        live.leave();
    });
    Box::into_raw(Box::new(handle))
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
