//! A server that is a program of the engine's machine: it speaks over its stdin and stdout, one message per line.
use super::wire::{self, Answer, Fault, Incoming, MAX_MESSAGE_BYTES, MAX_STRAY_BYTES};
use super::McpLog;
use crate::abi::Str;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::process::Stdio as Pipe;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot, watch, Notify};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// The time that a program has to end by itself.
const STOP: Duration = Duration::from_secs(2);
/// Messages that wait for a server that does not read.
const MAX_WRITES: usize = 256;
/// Limits on what a server may write to the engine's log: in one life, and in one line.
const MAX_LOG_BYTES: usize = 256 << 10;
const MAX_LOG_LINE_BYTES: u64 = 4 << 10;

/// One run of the server's program.
pub struct Stdio {
    name: String,
    writes: RefCell<Option<mpsc::Sender<String>>>, // None: its input is closed
    waiting: RefCell<HashMap<u64, oneshot::Sender<Answer>>>,
    number: Cell<u64>,
    why: RefCell<Option<String>>, // it has ended
    over: watch::Sender<bool>,
    kill: Rc<Notify>,
}

/// A request. If it is dropped before its answer arrives, the server is told that it was cancelled.
struct Asked<'a> {
    server: &'a Stdio,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let waits = self.server.waiting.borrow_mut().remove(&self.number);
        if waits.is_some() {
            let _ = self.server.send(wire::cancelled(self.number));
        }
    }
}

impl Stdio {
    pub async fn start(
        name: &str,
        command: &[String],
        env: &[(String, String)],
        log: McpLog,
    ) -> Result<Rc<Stdio>, Fault> {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::piped())
            .process_group(0) // Ctrl-C at the engine's terminal is for the engine, which stops the server
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| {
                Fault::unreachable(format!("cannot start the MCP server '{name}': {e}"))
            })?;
        let (writes, lines) = mpsc::channel(MAX_WRITES);
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        let stderr = child.stderr.take().expect("it is piped");
        let server = Rc::new(Stdio {
            name: name.to_string(),
            writes: RefCell::new(Some(writes)),
            waiting: RefCell::default(),
            number: Cell::new(0),
            why: RefCell::default(),
            over: watch::Sender::new(false),
            kill: Rc::default(),
        });
        spawn_local(write(stdin, lines));
        spawn_local(log_lines(name.to_string(), BufReader::new(stderr), log));
        let kill = server.kill.clone();
        spawn_local(live(
            Rc::downgrade(&server),
            child,
            BufReader::new(stdout),
            kill,
        ));
        // An answer that never comes leaves `start` by its time-out, and the program ends with it.
        let ends = EndOnDrop(&server);
        server.ask_by(wire::initialize).await?;
        server.send(wire::INITIALIZED.to_string())?;
        std::mem::forget(ends);
        Ok(server)
    }

    pub fn ended(&self) -> bool {
        self.why.borrow().is_some()
    }

    pub async fn ask(&self, method: &str, params: &str) -> Answer {
        self.ask_by(|number| wire::request(number, method, params))
            .await
    }

    async fn ask_by(&self, message: impl FnOnce(u64) -> String) -> Answer {
        if self.ended() {
            return Err(self.gone());
        }
        let number = self.number.get() + 1;
        self.number.set(number);
        let (sender, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(number, sender);
        let _asked = Asked {
            server: self,
            number,
        };
        self.send(message(number))?;
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Closes the program's input, at which it should end. Kills it if it does not.
    pub async fn stop(&self) {
        self.writes.borrow_mut().take();
        let mut over = self.over.subscribe();
        if timeout(STOP, over.wait_for(|over| *over)).await.is_err() {
            self.kill.notify_one();
            let _ = timeout(STOP, over.wait_for(|over| *over)).await;
        }
    }

    fn send(&self, message: String) -> Result<(), Fault> {
        let writes = self.writes.borrow();
        let Some(writes) = writes.as_ref() else {
            return Err(self.gone());
        };
        writes.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Fault::unreachable(format!(
                "the MCP server '{}' does not read its input: {MAX_WRITES} messages wait for it",
                self.name
            )),
            mpsc::error::TrySendError::Closed(_) => self.gone(),
        })
    }

    fn gone(&self) -> Fault {
        let why = self.why.borrow();
        let why = why.as_deref().unwrap_or("it has ended");
        Fault::unreachable(format!(
            "the MCP server '{}' is not running: {why}",
            self.name
        ))
    }

    fn end(&self, why: String) {
        *self.why.borrow_mut() = Some(why);
        self.writes.borrow_mut().take();
        self.waiting.borrow_mut().clear(); // wakes every waiter
    }

    /// Returns whether the message was an answer.
    fn take(&self, message: &[u8]) -> bool {
        match wire::read(message) {
            Incoming::Answer(number, answer) => {
                let asked = self.waiting.borrow_mut().remove(&number);
                asked.is_some_and(|asked| asked.send(answer).is_ok())
            }
            Incoming::Request(reply) => {
                let _ = self.send(reply);
                false
            }
            Incoming::Stray => false,
        }
    }
}

/// Ends a server whose start failed.
struct EndOnDrop<'a>(&'a Rc<Stdio>);
impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.kill.notify_one();
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        self.kill.notify_one();
    }
}

/// Takes the program's messages until it ends or `kill` is notified, and then makes sure that it is gone.
async fn live(
    server: Weak<Stdio>,
    mut child: Child,
    mut stdout: impl AsyncBufRead + Unpin,
    kill: Rc<Notify>,
) {
    let why = tokio::select! {
        why = listen(&server, &mut stdout) => why,
        _ = kill.notified() => "it was stopped".to_string(),
    };
    if let Some(server) = server.upgrade() {
        server.end(why);
    }
    if let Some(pid) = child.id() {
        // The program may have started others, as launchers such as npx do.
        unsafe { libc::killpg(pid as libc::pid_t, libc::SIGKILL) };
    }
    let _ = child.wait().await;
    if let Some(server) = server.upgrade() {
        server.over.send_replace(true);
    }
}

/// Returns the reason why no further message will arrive.
async fn listen(server: &Weak<Stdio>, stdout: &mut (impl AsyncBufRead + Unpin)) -> String {
    let mut stray = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_MESSAGE_BYTES as u64;
        match (&mut *stdout)
            .take(limit)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) | Err(_) => return "it has ended".into(),
            Ok(_) if line.len() == MAX_MESSAGE_BYTES => {
                return format!(
                    "it sent a line of more than {} MiB",
                    MAX_MESSAGE_BYTES >> 20
                )
            }
            Ok(_) => {}
        }
        let Some(server) = server.upgrade() else {
            return "it was stopped".into();
        };
        // Some servers print other text too.
        stray = if server.take(&line) {
            0
        } else {
            stray + line.len()
        };
        if stray > MAX_STRAY_BYTES {
            return format!("it sent {} MiB without an answer", MAX_STRAY_BYTES >> 20);
        }
        if line.capacity() > 1 << 20 {
            line = Vec::new();
        }
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        // An error shows when the program's output ends.
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn log_lines(name: String, mut stderr: impl AsyncBufRead + Unpin, log: McpLog) {
    let mut logged = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stderr)
            .take(MAX_LOG_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .await
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        // Lines that are not logged are still read, or the server would block.
        if logged <= MAX_LOG_BYTES {
            logged += line.len();
            log(
                Str::of(&name),
                Str::of(String::from_utf8_lossy(&line).trim_end()),
            );
        }
    }
}
