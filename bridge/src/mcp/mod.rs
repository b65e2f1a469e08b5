//! The MCP servers of the engine's configuration: programs that the engine runs, and URLs that it asks.
//!
//! One thread, `pie-mcp`, serves all of them. C++ (`src/host/mcp_pool.cc`) decides who may ask which server; this module speaks
//! the protocol. Results pass through as the text that the server sent.
mod http;
mod server;
mod stdio;
mod wire;

use crate::abi::{guarded, pie_out_text, List, Out, Str};
use server::Server;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::rc::Rc;
use std::thread::JoinHandle;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};
use tokio::task::{spawn_local, AbortHandle, LocalSet};
use wire::{Answer, Fault};

/// One server, as the configuration names it. It has a command or a URL.
#[repr(C)]
pub struct McpServer {
    pub name: Str,
    /// The program and its arguments.
    pub command: List<Str>,
    /// Variables of the program's environment, as `NAME=value`, besides those of the engine.
    pub env: List<Str>,
    pub url: Str,
    /// Headers of every HTTP request, as `name:value`.
    pub headers: List<Str>,
    /// The time of one request. The start of a server has a limit of its own.
    pub timeout_ms: u64,
}

/// Takes a line that a server wrote to its stderr.
pub type McpLog = extern "C" fn(server: Str, line: Str);
/// Takes the answer to a request, exactly once: the JSON of its result, or the JSON of an error with `code`, `message` and
/// possibly `data`.
pub type McpDone = extern "C" fn(data: *mut c_void, ok: bool, answer: Str);

pub struct McpPool {
    commands: Option<UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

enum Command {
    Ask {
        id: u64,
        server: usize,
        method: String,
        params: String,
        done: Done,
    },
    Cancel(u64),
}

struct Done {
    call: McpDone,
    data: *mut c_void,
}
// C++ allows the call on any thread.
unsafe impl Send for Done {}

impl Done {
    fn finish(self, answer: Answer) {
        match answer {
            Ok(result) => (self.call)(self.data, true, Str::of(&result)),
            Err(fault) => (self.call)(self.data, false, Str::of(&fault.to_json())),
        }
        std::mem::forget(self);
    }
}

/// A request that is dropped was cancelled, or the engine stops.
impl Drop for Done {
    fn drop(&mut self) {
        let fault = Fault::unreachable("the request was cancelled");
        (self.call)(self.data, false, Str::of(&fault.to_json()));
    }
}

async fn serve(servers: Vec<Rc<Server>>, mut commands: UnboundedReceiver<Command>) {
    let asked = Rc::<RefCell<HashMap<u64, AbortHandle>>>::default();
    while let Some(command) = commands.recv().await {
        match command {
            Command::Ask {
                id,
                server,
                method,
                params,
                done,
            } => {
                let (server, left) = (servers[server].clone(), asked.clone());
                let task = spawn_local(async move {
                    let answer = server.request(&method, &params).await;
                    left.borrow_mut().remove(&id);
                    done.finish(answer);
                });
                asked.borrow_mut().insert(id, task.abort_handle());
            }
            Command::Cancel(id) => {
                let task = asked.borrow_mut().remove(&id);
                if let Some(task) = task {
                    task.abort();
                }
            }
        }
    }
    for (_, task) in asked.borrow_mut().drain() {
        task.abort();
    }
    let stopping = servers.iter().map(|server| server.stop());
    futures_util::future::join_all(stopping).await;
}

fn run(servers: Vec<server::Config>, log: McpLog, commands: UnboundedReceiver<Command>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system has resources for a thread's runtime");
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let servers = servers.into_iter();
        let servers = servers.map(|config| Rc::new(Server::new(config, log)));
        serve(servers.collect(), commands).await
    });
}

/// Starts the thread of the servers. A server itself starts with the first request to it. On failure, returns null and puts the
/// reason into `error`.
#[no_mangle]
pub unsafe extern "C" fn pie_mcp_start(
    servers: List<McpServer>,
    log: McpLog,
    error: *mut Out,
) -> *mut McpPool {
    guarded(std::ptr::null_mut(), || {
        let configs: Result<Vec<_>, String> = servers
            .as_slice()
            .iter()
            .map(|server| server::Config::read(server))
            .collect();
        let started = configs.and_then(|configs| {
            let (sender, receiver) = unbounded_channel();
            let thread = std::thread::Builder::new().name("pie-mcp".into());
            let thread = thread
                .spawn(move || run(configs, log, receiver))
                .map_err(|e| e.to_string())?;
            Ok(McpPool {
                commands: Some(sender),
                thread: Some(thread),
            })
        });
        match started {
            Ok(pool) => Box::into_raw(Box::new(pool)),
            Err(text) => {
                pie_out_text(error, Str::of(&text));
                std::ptr::null_mut()
            }
        }
    })
}

/// Asks the server of this number. `params` is the text of a JSON object. `done` is called on the servers' thread.
#[no_mangle]
pub unsafe extern "C" fn pie_mcp_ask(
    pool: &McpPool,
    id: u64,
    server: usize,
    method: Str,
    params: Str,
    done: McpDone,
    data: *mut c_void,
) {
    guarded((), || {
        let command = Command::Ask {
            id,
            server,
            method: method.to_string_lossy(),
            params: params.to_string_lossy(),
            done: Done { call: done, data },
        };
        if let Some(commands) = &pool.commands {
            let _ = commands.send(command); // a command that is not sent is dropped, which calls `done`
        }
    })
}

/// Cancels a request. The server is told. Does nothing if the request has ended.
#[no_mangle]
pub unsafe extern "C" fn pie_mcp_cancel(pool: &McpPool, id: u64) {
    guarded((), || {
        if let Some(commands) = &pool.commands {
            let _ = commands.send(Command::Cancel(id));
        }
    })
}

/// Ends every request and every server, and waits for the thread.
#[no_mangle]
pub unsafe extern "C" fn pie_mcp_free(pool: *mut McpPool) {
    guarded((), || {
        let mut pool = Box::from_raw(pool);
        pool.commands = None;
        if let Some(thread) = pool.thread.take() {
            // The last answer may free the pool from the servers' own thread.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    })
}
