//! The connection to a server, and what a client can ask of it.

use crate::connection::{Connection, OnOk, Processes};
use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::key::ParsedPrivateKey;
use crate::limits::CHUNK_BYTES;
use crate::mailbox::Mailbox;
use crate::mcp::Servers;
use crate::process::Process;
use crate::tls;
use crate::wire::{Chunk, ProcessInfo, Request};
use base64::{engine::general_purpose::STANDARD, Engine};
use serde::Serialize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const INSTALL: Duration = Duration::from_secs(600); // the server compiles first

/// How to connect. The options name no user: call [`Client::authenticate`] after connecting.
#[derive(Clone)]
pub struct Options {
    /// The time-out of each request; None waits forever.
    pub timeout: Option<Duration>,
    /// PEM of the authority that signed the server's certificate, if it is not a public one.
    pub ca: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options { timeout: Some(Duration::from_secs(60)), ca: None }
    }
}

#[derive(Clone)]
enum Login {
    Key { username: String, key: Option<Arc<ParsedPrivateKey>> },
    Token(String),
}

/// A connection to a server. Clones share it. It closes when the last clone is dropped.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    uri: String,
    options: Options,
    connection: tokio::sync::RwLock<Arc<Connection>>,
    login: Mutex<Option<Login>>,
    processes: Processes,
    flow: Arc<Flow>,
    mcp: Arc<Servers>,
    uploading: tokio::sync::Mutex<()>,
}

impl Client {
    /// Connects. Call [`authenticate`](Client::authenticate) next.
    pub async fn connect(uri: &str) -> Result<Client> {
        Client::connect_with(uri, Options::default()).await
    }

    /// Connects with options, and authenticates if they name a user.
    pub async fn connect_with(uri: &str, options: Options) -> Result<Client> {
        let (processes, flow) = (Processes::default(), Arc::<Flow>::default());
        let mcp = Arc::<Servers>::default();
        let ca = options.ca.as_deref();
        let connection =
            Connection::open(uri, ca, processes.clone(), flow.clone(), mcp.clone()).await?;
        Ok(Client(Arc::new(Inner {
            uri: uri.into(),
            options,
            connection: tokio::sync::RwLock::new(Arc::new(connection)),
            login: Mutex::default(),
            processes,
            flow,
            mcp,
            uploading: tokio::sync::Mutex::new(()),
        })))
    }

    /// Closes the connection, and stops the MCP servers that this client runs. Processes keep running; pending
    /// calls get [`Error::ConnectionLost`].
    pub async fn close(&self) {
        let connection = self.live().await;
        connection.close().await;
        self.0.mcp.clear();
    }

    /// Connects again, authenticates as before, offers its MCP servers again and attaches to every process that
    /// has not ended. Their events continue where they stopped; none is lost as long as the server buffers them. `recv` of a
    /// process that no longer exists returns [`Error::Server`].
    pub async fn reconnect(&self) -> Result<()> {
        const ATTEMPTS: u32 = 5;
        self.live().await.close().await;
        let inner = &self.0;
        for attempt in 1.. {
            let ca = inner.options.ca.as_deref();
            let (processes, flow) = (inner.processes.clone(), inner.flow.clone());
            match Connection::open(&inner.uri, ca, processes, flow, inner.mcp.clone()).await {
                Ok(connection) => {
                    *inner.connection.write().await = Arc::new(connection);
                    break;
                }
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(50 << attempt)).await,
            }
        }
        let login = inner.login.lock().expect("the lock is not poisoned").clone();
        match login {
            Some(Login::Key { username, key }) => self.identify(&username, key.as_deref()).await?,
            Some(Login::Token(token)) => self.auth_by_token(&token).await?,
            None => {}
        }
        for name in inner.mcp.names() {
            let (name, transport) = (name.as_str(), "stdio");
            let (command, args, url) = (None, None, None);
            self.ask(Request::RegisterMcpServer { name, transport, command, args, url }).await?;
        }
        let mailboxes: Vec<_> =
            inner.processes.lock().expect("the lock is not poisoned").values().cloned().collect();
        for mailbox in mailboxes {
            let back = mailbox.clone();
            let on_ok: OnOk = Box::new(move |_| back.back());
            match self.attach(&mailbox.id, mailbox.seen(), on_ok).await {
                Err(error @ Error::Server(_)) => {
                    inner.processes.lock().expect("the lock is not poisoned").remove(&mailbox.id);
                    mailbox.lost(error);
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// States the username, and proves it with the key if the server requires a proof. `key` is the
    /// text of a key: see [`ParsedPrivateKey`].
    pub async fn authenticate(&self, username: &str, key: Option<&str>) -> Result<()> {
        let key = key.map(ParsedPrivateKey::parse).transpose()?.map(Arc::new);
        self.identify(username, key.as_deref()).await?;
        let login = Login::Key { username: username.into(), key };
        *self.0.login.lock().expect("the lock is not poisoned") = Some(login);
        Ok(())
    }

    async fn identify(&self, username: &str, key: Option<&ParsedPrivateKey>) -> Result<()> {
        let answer = self.ask(Request::AuthIdentify { username }).await.map_err(as_auth)?;
        let Ok(challenge) = STANDARD.decode(&answer) else {
            return Ok(()); // the server requires no proof and sent plain text
        };
        let key = key.ok_or_else(|| {
            Error::Auth(format!("the server requires a proof: pass the private key of {username}"))
        })?;
        let challenge = tls::bound(challenge, &self.live().await.certificate_hash);
        let signature = STANDARD.encode(key.sign(&challenge)?);
        self.ask(Request::AuthProve { signature: &signature }).await.map_err(as_auth)?;
        Ok(())
    }

    /// Authenticates with the token in the server's file `server-<port>.token`.
    pub async fn auth_by_token(&self, token: &str) -> Result<()> {
        self.ask(Request::AuthByToken { token }).await.map_err(as_auth)?;
        *self.0.login.lock().expect("the lock is not poisoned") = Some(Login::Token(token.into()));
        Ok(())
    }

    // --- programs

    /// Returns whether `name` or `name@version` is installed. With a component or a manifest, also
    /// checks that the installed one is equal.
    pub async fn check_program(
        &self,
        inferlet: &str,
        wasm: Option<&[u8]>,
        manifest: Option<&str>,
    ) -> Result<bool> {
        let (name, version) = inferlet.split_once('@').unwrap_or((inferlet, ""));
        let request = Request::CheckProgram {
            name,
            version,
            wasm_hash: wasm.map(hash),
            manifest_hash: manifest.map(|text| hash(text.as_bytes())),
        };
        Ok(self.ask(request).await? == "true")
    }

    /// Returns the latest installed version of a program, such as `1.2.3`.
    pub async fn resolve_version(&self, name: &str) -> Result<String> {
        let text = self.query("program", name).await?;
        let found: serde_json::Value = serde_json::from_str(&text).map_err(unreadable)?;
        Ok(found["version"].as_str().unwrap_or_default().into())
    }

    /// Installs a component. `manifest` is the text of its Pie.toml. An installed version is replaced
    /// only with `force_overwrite`.
    pub async fn install_program(
        &self,
        wasm: &[u8],
        manifest: &str,
        force_overwrite: bool,
    ) -> Result<()> {
        let program_hash = &hash(wasm);
        let request =
            |chunk| Request::AddProgram { program_hash, manifest, force_overwrite, chunk };
        self.upload(wasm, request, Some(INSTALL)).await
    }

    // --- processes

    /// Launches `name` (the latest version) or `name@version`. A string input is sent unchanged, any
    /// other value as JSON.
    pub async fn launch_process(&self, inferlet: &str, input: impl Serialize) -> Result<Process> {
        self.launch_process_with(inferlet, input, true, None).await
    }

    /// Does the same as `launch_process`. Without `capture_outputs`, the process's stdout and stderr
    /// are not sent; its messages still are.
    pub async fn launch_process_with(
        &self,
        inferlet: &str,
        input: impl Serialize,
        capture_outputs: bool,
        token_budget: Option<u64>,
    ) -> Result<Process> {
        let input = json_of(input)?;
        let request = Request::LaunchProcess {
            inferlet,
            input: &input,
            capture_outputs,
            token_budget,
            seen: 0,
        };
        self.adopting(request, Some(0)).await
    }

    /// Attaches to a process of this user. The buffered events come first. With `seen`, the number of
    /// events received before ([`Process::seen`]), exactly the later events come.
    pub async fn attach_process(&self, process_id: &str, seen: Option<u64>) -> Result<Process> {
        self.adopting(Request::AttachProcess { process_id, seen }, seen).await
    }

    /// Returns the user's running processes.
    pub async fn list_processes(&self) -> Result<Vec<ProcessInfo>> {
        let text = self.ask(Request::ListProcesses).await?;
        serde_json::from_str(&text).map_err(unreadable)
    }

    /// Sends a message to a process.
    pub async fn signal_process(&self, process_id: &str, message: &str) -> Result<()> {
        self.ask(Request::SignalProcess { process_id, message }).await.map(drop)
    }

    /// Sends a file to a process.
    pub async fn transfer_file(&self, process_id: &str, data: &[u8]) -> Result<()> {
        let file_hash = &hash(data);
        let request = |chunk| Request::TransferFile { process_id, file_hash, chunk };
        self.upload(data, request, self.0.options.timeout).await
    }

    /// Cancels a process.
    pub async fn terminate_process(&self, process_id: &str) -> Result<()> {
        self.ask(Request::TerminateProcess { process_id }).await.map(drop)
    }

    /// Lets an HTTP inferlet answer on a port of the server's machine; 0 chooses a free one. Returns the
    /// daemon's id, for [`terminate_process`](Client::terminate_process) and
    /// [`restart_daemon`](Client::restart_daemon); [`list_processes`](Client::list_processes) shows its port.
    pub async fn launch_daemon(
        &self,
        inferlet: &str,
        port: u16,
        input: impl Serialize,
    ) -> Result<String> {
        let input = &json_of(input)?;
        self.ask(Request::LaunchDaemon { port, inferlet, input }).await
    }

    /// Ends the requests that a daemon is answering, and looks up its program again: a daemon that was launched
    /// without a version gets the newest one. Its id, port and input stay. Returns the program that answers now.
    pub async fn restart_daemon(&self, process_id: &str) -> Result<String> {
        self.ask(Request::RestartDaemon { process_id }).await
    }

    /// Starts an MCP server and offers it to the processes of this client: a command with its arguments, which
    /// speaks MCP over stdin and stdout. The transport is `stdio`.
    pub async fn register_mcp_server(
        &self,
        name: &str,
        transport: &str,
        command: Option<&str>,
        args: Option<&[String]>,
        url: Option<&str>,
    ) -> Result<()> {
        let (Some(program), "stdio") = (command, transport) else {
            return Err(Error::Io(format!(
                "transport '{transport}': this client runs servers of the transport 'stdio', which need a command"
            )));
        };
        self.0.mcp.add(name, program, args.unwrap_or_default()).await?;
        self.ask(Request::RegisterMcpServer { name, transport, command, args, url }).await.map(drop)
    }

    // --- the rest

    /// Returns the round-trip time to the server.
    pub async fn ping(&self) -> Result<Duration> {
        let began = Instant::now();
        self.ask(Request::Ping).await?;
        Ok(began.elapsed())
    }

    /// Returns JSON. `subject` is `model_status`, or `program` with its name in `record`.
    pub async fn query(&self, subject: &str, record: &str) -> Result<String> {
        self.ask(Request::Query { subject, record }).await
    }

    // --- inside

    async fn live(&self) -> Arc<Connection> {
        self.0.connection.read().await.clone()
    }

    async fn ask(&self, request: Request<'_>) -> Result<String> {
        self.live().await.request(request, self.0.options.timeout, None).await
    }

    async fn attach(&self, process_id: &str, seen: Option<u64>, on_ok: OnOk) -> Result<()> {
        let request = Request::AttachProcess { process_id, seen };
        let limit = self.0.options.timeout;
        self.live().await.request(request, limit, Some(on_ok)).await.map(drop)
    }

    /// Sends a request whose answer is a process. The mailbox is created with the response, because
    /// the first events may follow immediately.
    async fn adopting(&self, request: Request<'_>, seen: Option<u64>) -> Result<Process> {
        let attached = match &request {
            Request::AttachProcess { process_id, .. } => Some(process_id.to_string()),
            _ => None, // the response holds the id
        };
        let made = Arc::new(Mutex::new(None));
        let (processes, flow, keep) = (self.0.processes.clone(), self.0.flow.clone(), made.clone());
        let on_ok: OnOk = Box::new(move |answer| {
            let id = attached.as_deref().unwrap_or(answer);
            let mailbox = Mailbox::new(id, seen, flow);
            let before = processes
                .lock()
                .expect("the lock is not poisoned")
                .insert(id.into(), mailbox.clone());
            if let Some(before) = before {
                let text =
                    format!("this client attached to process {id} again; use the newer Process");
                before.lost(Error::ConnectionLost(text));
            }
            *keep.lock().expect("the lock is not poisoned") = Some(mailbox);
        });
        self.live().await.request(request, self.0.options.timeout, Some(on_ok)).await?;
        let mailbox =
            made.lock().expect("the lock is not poisoned").take().expect("the request succeeded");
        Ok(Process::new(self.clone(), mailbox))
    }

    /// Uploads in chunks, one upload at a time, because the server assembles one at a time.
    async fn upload<'a>(
        &self,
        data: &'a [u8],
        request: impl Fn(Chunk<'a>) -> Request<'a>,
        limit: Option<Duration>,
    ) -> Result<()> {
        let _one = self.0.uploading.lock().await;
        let connection = self.live().await;
        let begun = connection.begin(None)?;
        let total_chunks = data.len().div_ceil(CHUNK_BYTES).max(1) as u32;
        for chunk_index in 0..total_chunks {
            if connection.is_answered(&begun) {
                break; // the server refused the upload and would ignore the rest
            }
            let at = chunk_index as usize * CHUNK_BYTES;
            let chunk_data = &data[at..data.len().min(at + CHUNK_BYTES)];
            let chunk = Chunk { chunk_index, total_chunks, chunk_data };
            connection.send(begun.number, request(chunk)).await?;
        }
        connection.finish(begun, limit).await.map(drop)
    }
}

fn hash(data: &[u8]) -> String {
    blake3::hash(data).to_hex().to_string()
}

fn json_of(input: impl Serialize) -> Result<String> {
    match serde_json::to_value(input) {
        Ok(serde_json::Value::String(text)) => Ok(text),
        Ok(other) => Ok(other.to_string()),
        Err(e) => Err(Error::Io(format!("the input cannot be written as JSON: {e}"))),
    }
}

fn as_auth(error: Error) -> Error {
    match error {
        Error::Server(text) => Error::Auth(text),
        other => other,
    }
}

fn unreadable(error: serde_json::Error) -> Error {
    Error::Server(format!("cannot parse the server's answer: {error}"))
}
