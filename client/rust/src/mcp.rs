//! MCP servers that run beside this client. The engine's requests are relayed to them.
//!
//! A server is a program that speaks the Model Context Protocol over its stdin and stdout, one JSON message per line. A
//! server that dies is started again by the next request, after a pause that grows.

use crate::error::{Error, Result};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;

/// The longest message of a server.
const MAX_LINE_BYTES: u64 = 8 << 20;
const START: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(60);
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// A server that ran for this long is restarted without a pause.
const STABLE: Duration = Duration::from_secs(60);
const PROTOCOL: &str = "2025-06-18";
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNREACHABLE: i64 = -32000;
const TIMEOUT: i64 = -32003;

type Lock<T> = Arc<Mutex<T>>;

/// A JSON-RPC error, as JSON.
#[derive(Debug)]
struct Fault(Value);

fn fault(code: i64, message: String) -> Fault {
    Fault(json!({ "code": code, "message": message }))
}

/// The servers of a client, by name.
#[derive(Default)]
pub struct Servers(Mutex<HashMap<String, Arc<Server>>>);

impl Servers {
    /// Starts a server, in place of one of the same name.
    pub async fn add(&self, name: &str, command: &str, args: &[String]) -> Result<()> {
        let server = Server {
            name: name.into(),
            command: command.into(),
            args: args.to_vec(),
            state: tokio::sync::Mutex::default(),
        };
        let started = server.running().await;
        started.map_err(|Fault(error)| {
            Error::Io(error["message"].as_str().unwrap_or_default().to_string())
        })?;
        self.lock().insert(name.into(), Arc::new(server));
        Ok(())
    }

    pub fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Serves an `mcp_request`: whether it succeeded, and the JSON of its result or error.
    pub async fn relay(&self, server: &str, method: &str, params: &str) -> (bool, String) {
        let found = self.lock().get(server).cloned();
        let answer = async {
            let server = found.ok_or_else(|| {
                fault(UNREACHABLE, format!("this client runs no server '{server}'"))
            })?;
            let params = serde_json::from_str(if params.is_empty() { "{}" } else { params })
                .map_err(|_| fault(INVALID_PARAMS, "the parameters are not JSON".into()))?;
            server.request(method, params).await
        };
        match answer.await {
            Ok(result) => (true, result.to_string()),
            Err(Fault(error)) => (false, error.to_string()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Server>>> {
        self.0.lock().expect("the lock is not poisoned")
    }
}

struct Server {
    name: String,
    command: String,
    args: Vec<String>,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Arc<Running>>,
    failures: u32,
    started: Option<Instant>,
}

/// A server's program, which is killed when this is dropped.
struct Running {
    stdin: tokio::sync::Mutex<ChildStdin>,
    inside: Lock<Inside>,
    _child: Child,
}

#[derive(Default)]
struct Inside {
    number: u64,
    waiting: HashMap<u64, oneshot::Sender<std::result::Result<Value, Fault>>>,
    ended: Option<String>,
}

fn lock<T>(shared: &Lock<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().expect("the lock is not poisoned")
}

impl Server {
    async fn request(&self, method: &str, params: Value) -> std::result::Result<Value, Fault> {
        let running = self.running().await?;
        self.ask(&running, method, params, REQUEST).await
    }

    /// The program, started if it does not run.
    async fn running(&self) -> std::result::Result<Arc<Running>, Fault> {
        let mut state = self.state.lock().await;
        if let Some(running) = &state.running {
            if lock(&running.inside).ended.is_none() {
                return Ok(running.clone());
            }
        }
        state.running = None;
        if state.started.is_some_and(|at| at.elapsed() > STABLE) {
            state.failures = 0;
        }
        if state.failures > 0 {
            let pause = Duration::from_millis(100 << state.failures.min(16));
            tokio::time::sleep(pause.min(MAX_PAUSE)).await;
        }
        state.failures += 1;
        state.started = Some(Instant::now());
        let cannot = |e: std::io::Error| {
            fault(UNREACHABLE, format!("cannot start the MCP server '{}': {e}", self.name))
        };
        let mut child = Command::new(&self.command)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(cannot)?;
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let inside = Lock::<Inside>::default();
        let running = Arc::new(Running {
            stdin: tokio::sync::Mutex::new(stdin),
            inside: inside.clone(),
            _child: child,
        });
        tokio::spawn(read(Arc::downgrade(&running), inside, stdout));
        let hello = json!({
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": { "name": "pie-client", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask(&running, "initialize", hello, START).await?;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        running.send(&ready).await;
        state.running = Some(running.clone());
        Ok(running)
    }

    async fn ask(
        &self,
        running: &Running,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> std::result::Result<Value, Fault> {
        let gone = |why: &str| {
            fault(UNREACHABLE, format!("the MCP server '{}' is not running: {why}", self.name))
        };
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut inside = lock(&running.inside);
            if let Some(why) = &inside.ended {
                return Err(gone(why));
            }
            inside.number += 1;
            let id = inside.number;
            inside.waiting.insert(id, answer);
            id
        };
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        running.send(&message).await;
        match tokio::time::timeout(limit, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                let why = lock(&running.inside).ended.clone();
                Err(gone(why.as_deref().unwrap_or("it has ended")))
            }
            Err(_) => {
                lock(&running.inside).waiting.remove(&id);
                let params = json!({ "requestId": id, "reason": "timed out" });
                let method = "notifications/cancelled";
                running
                    .send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
                    .await;
                let text =
                    format!("the MCP server '{}' did not answer within {limit:?}", self.name);
                Err(fault(TIMEOUT, text))
            }
        }
    }
}

impl Running {
    /// An error shows when the program's output ends.
    async fn send(&self, message: &Value) {
        let line = format!("{message}\n");
        let mut stdin = self.stdin.lock().await;
        let _ = stdin.write_all(line.as_bytes()).await;
        let _ = stdin.flush().await;
    }
}

async fn read(running: std::sync::Weak<Running>, inside: Lock<Inside>, stdout: ChildStdout) {
    let mut reader = BufReader::new(stdout);
    let why = loop {
        let mut line = Vec::new();
        let read = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await;
        match read {
            Ok(0) | Err(_) => break "it has ended".to_string(),
            Ok(_) if line.len() as u64 == MAX_LINE_BYTES => {
                break format!("it sent a line of more than {} MiB", MAX_LINE_BYTES >> 20)
            }
            Ok(_) => {}
        }
        // Some servers print other text too.
        let Ok(message) = serde_json::from_slice::<Value>(&line) else { continue };
        let id = &message["id"];
        if let Some(method) = message["method"].as_str() {
            let Some(running) = running.upgrade().filter(|_| !id.is_null()) else { continue };
            let answer = match method {
                "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                _ => json!({ "jsonrpc": "2.0", "id": id, "error": {
                    "code": METHOD_NOT_FOUND, "message": format!("no method is named {method}"),
                }}),
            };
            running.send(&answer).await;
            continue;
        }
        let waiting = id.as_u64().and_then(|id| lock(&inside).waiting.remove(&id));
        let Some(waiting) = waiting else { continue };
        let _ = waiting.send(match message.get("error") {
            Some(error) if error.is_object() => Err(Fault(error.clone())),
            _ => Ok(message["result"].clone()),
        });
    };
    let mut inside = lock(&inside);
    inside.ended = Some(why);
    inside.waiting.clear(); // wakes every waiter
}
