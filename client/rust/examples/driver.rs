//! The conformance driver of the Rust client. See client/conformance/README.md.

use pie_client::{Client, Error, Options, Process, ProcessEvent};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

#[derive(Default)]
struct World {
    folder: String,
    received: AtomicUsize,
    clients: Mutex<HashMap<String, Client>>,
    processes: Mutex<HashMap<String, Arc<Process>>>,
}

type Answer = Result<Value, Error>;

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Server(_) => "refused",
        Error::Auth(_) => "auth",
        Error::ConnectionLost(_) => "connection",
        Error::Timeout(_) => "timeout",
        Error::Process(_) => "process",
        Error::Ended(_) => "ended",
        Error::Integrity(_) => "integrity",
        Error::TooLarge(_) => "too_large",
        Error::Key(_) => "key",
        _ => "bug",
    }
}

fn read(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the text of a manifest, which is given as its path or as its text.
fn manifest(text: &str) -> String {
    if text.contains('[') {
        text.into()
    } else {
        String::from_utf8(read(text)).expect("a manifest is UTF-8")
    }
}

impl World {
    fn show(&self, event: ProcessEvent) -> Value {
        match event {
            ProcessEvent::Stdout(text) => json!(["stdout", text]),
            ProcessEvent::Stderr(text) => json!(["stderr", text]),
            ProcessEvent::Message(text) => json!(["message", text]),
            ProcessEvent::Return(text) => json!(["return", text]),
            ProcessEvent::Error(text) => json!(["error", text]),
            ProcessEvent::File(bytes) => {
                let number = self.received.fetch_add(1, Relaxed);
                let path = format!("{}/received-{number}", self.folder);
                std::fs::write(&path, bytes).expect("the folder is writable");
                json!(["file", path])
            }
        }
    }

    async fn connect(&self, command: &Value) -> Answer {
        let text = |key: &str| command[key].as_str();
        let options = Options {
            timeout: command["timeout"].as_f64().map(Duration::from_secs_f64),
            ca: text("ca").map(|path| String::from_utf8(read(path)).expect("PEM is UTF-8")),
        };
        let client = Client::connect_with(text("uri").unwrap_or_default(), options).await?;
        if let Some(token) = text("token") {
            client.auth_by_token(token).await?;
        } else if let Some(username) = text("username") {
            client.authenticate(username, text("key")).await?;
        }
        let name = text("client").unwrap_or_default().to_string();
        self.clients.lock().unwrap().insert(name, client);
        Ok(Value::Null)
    }

    fn keep(&self, command: &Value, process: Process) {
        let name = command["process"].as_str().unwrap_or_default().to_string();
        self.processes.lock().unwrap().insert(name, Arc::new(process));
    }

    async fn of_client(&self, client: Client, command: &Value) -> Answer {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let done = |()| Value::Null;
        match text("op") {
            "authenticate" => {
                client.authenticate(text("username"), command["key"].as_str()).await.map(done)
            }
            "auth_by_token" => client.auth_by_token(text("token")).await.map(done),
            "reconnect" => client.reconnect().await.map(done),
            "close" => {
                client.close().await;
                Ok(Value::Null)
            }
            "ping" => client.ping().await.map(|_| Value::Null),
            "query" => client.query(text("subject"), text("record")).await.map(Value::from),
            "resolve_version" => client.resolve_version(text("name")).await.map(Value::from),
            "check" => {
                let wasm = command["wasm"].as_str().map(read);
                let manifest = command["manifest"].as_str().map(manifest);
                let checked =
                    client.check_program(text("program"), wasm.as_deref(), manifest.as_deref());
                checked.await.map(Value::from)
            }
            "install" => {
                let force = command["force"].as_bool().unwrap_or(false);
                let (wasm, manifest) = (read(text("wasm")), manifest(text("manifest")));
                client.install_program(&wasm, &manifest, force).await.map(done)
            }
            "launch" => {
                let process = client
                    .launch_process_with(
                        text("program"),
                        &command["input"],
                        command["capture"].as_bool().unwrap_or(true),
                        command["budget"].as_u64(),
                    )
                    .await?;
                let id = process.id().to_string();
                self.keep(command, process);
                Ok(id.into())
            }
            "attach" => {
                let process = client.attach_process(text("pid"), command["seen"].as_u64()).await?;
                self.keep(command, process);
                Ok(Value::Null)
            }
            "list" => client.list_processes().await.map(|list| json!(list)),
            "signal_pid" => client.signal_process(text("pid"), text("message")).await.map(done),
            "terminate_pid" => client.terminate_process(text("pid")).await.map(done),
            "launch_daemon" => {
                let port = command["port"].as_u64().unwrap_or(0) as u16;
                client.launch_daemon(text("program"), port, json!({})).await.map(|id| json!(id))
            }
            "restart_daemon" => client.restart_daemon(text("pid")).await.map(|it| json!(it)),
            "register_mcp" => {
                let args: Vec<String> =
                    serde_json::from_value(command["args"].clone()).unwrap_or_default();
                let (name, program) = (text("name"), Some(text("command")));
                client
                    .register_mcp_server(name, "stdio", program, Some(&args), None)
                    .await
                    .map(done)
            }
            other => panic!("unknown op: {other}"),
        }
    }

    async fn of_process(
        &self,
        process: Arc<Process>,
        command: &Value,
        heard: &mut Value,
    ) -> Answer {
        let text = |key: &str| command[key].as_str().unwrap_or_default();
        let done = |()| Value::Null;
        match text("op") {
            "signal" => process.signal(text("message")).await.map(done),
            "transfer" => process.transfer_file(&read(text("path"))).await.map(done),
            "terminate" => process.terminate().await.map(done),
            "discard" => {
                process.discard();
                Ok(Value::Null)
            }
            "seen" => Ok(json!(process.seen())),
            "recv" => match command["timeout"].as_f64() {
                Some(limit) => process.recv_timeout(Duration::from_secs_f64(limit)).await,
                None => process.recv().await,
            }
            .map(|event| self.show(event)),
            "drain" => {
                let mut events = Vec::new();
                while let Some(event) = process.next().await {
                    match event {
                        Ok(event) => events.push(self.show(event)),
                        Err(error) => {
                            *heard = events.into();
                            return Err(error);
                        }
                    }
                }
                Ok(events.into())
            }
            "text" => process.text().await.map(Value::from),
            "result" => process.result().await.map(Value::from),
            other => panic!("unknown op: {other}"),
        }
    }

    async fn handle(&self, command: Value) {
        let mut heard = Value::Null;
        let answer = if command["op"] == "connect" {
            self.connect(&command).await
        } else if let Some(name) = command["client"].as_str() {
            let client = self.clients.lock().unwrap().get(name).cloned();
            match client {
                Some(client) => self.of_client(client, &command).await,
                None => Ok(Value::Null), // the connection was never opened
            }
        } else {
            let name = command["process"].as_str().unwrap_or_default();
            let process = self.processes.lock().unwrap()[name].clone();
            self.of_process(process, &command, &mut heard).await
        };
        let id = &command["id"];
        let line = match answer {
            Ok(value) => json!({"id": id, "ok": value}),
            Err(error) => {
                let (kind, message) = (kind(&error), error.to_string());
                json!({"id": id, "error": {"kind": kind, "message": message, "events": heard}})
            }
        };
        println!("{line}");
    }
}

#[tokio::main]
async fn main() {
    // A step that panics would leave its caller without an answer: the driver ends instead.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        std::process::exit(101);
    }));
    let folder = std::env::args().nth(1).expect("usage: driver FOLDER");
    let world = Arc::new(World { folder, ..World::default() });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.expect("stdin is UTF-8") {
        let command = serde_json::from_str(&line).expect("each line is JSON");
        let world = world.clone();
        tokio::spawn(async move { world.handle(command).await });
    }
}
