//! One server: its configuration, its start by the first request, and its restart after it has died.
use super::http::{Http, Target};
use super::stdio::Stdio;
use super::wire::{Answer, Fault};
use super::{McpLog, McpServer};
use crate::abi::{List, Str};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout, Instant};

const START: Duration = Duration::from_secs(30);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A server that ran for this long is restarted without a pause.
const STABLE: Duration = Duration::from_secs(60);

pub enum Way {
    Program {
        command: Vec<String>,
        env: Vec<(String, String)>,
    },
    Url(Arc<Target>),
}

pub struct Config {
    pub name: String,
    way: Way,
    limit: Duration,
}

impl Config {
    /// # Safety
    /// The memory of C++ is borrowed for the length of the call.
    pub unsafe fn read(server: &McpServer) -> Result<Config, String> {
        let texts = |list: List<Str>| -> Vec<String> {
            let texts = unsafe { list.as_slice() }.iter();
            texts
                .map(|text| unsafe { text.to_string_lossy() })
                .collect()
        };
        let pair = |text: String, mark: char| {
            let (name, value) = text.split_once(mark).unwrap_or((&text, ""));
            (name.to_string(), value.to_string())
        };
        let name = server.name.to_string_lossy();
        let (command, url) = (texts(server.command), server.url.to_string_lossy());
        let way = if command.is_empty() {
            let headers = texts(server.headers).into_iter();
            let headers = headers.map(|header| pair(header, ':')).collect();
            let target = Target::new(&url, headers);
            Way::Url(Arc::new(target.map_err(|e| format!("mcp.{name}: {e}"))?))
        } else {
            let env = texts(server.env).into_iter();
            Way::Program {
                command,
                env: env.map(|entry| pair(entry, '=')).collect(),
            }
        };
        Ok(Config {
            name,
            way,
            limit: Duration::from_millis(server.timeout_ms),
        })
    }
}

/// A server that has answered `initialize`.
#[derive(Clone)]
pub enum Link {
    Stdio(Rc<Stdio>),
    Http(Rc<Http>),
}

impl Link {
    fn ended(&self) -> bool {
        match self {
            Link::Stdio(link) => link.ended(),
            Link::Http(link) => link.ended(),
        }
    }
    async fn ask(&self, method: &str, params: &str) -> Answer {
        match self {
            Link::Stdio(link) => link.ask(method, params).await,
            Link::Http(link) => link.ask(method, params).await,
        }
    }
    async fn stop(&self) {
        match self {
            Link::Stdio(link) => link.stop().await,
            Link::Http(link) => link.stop().await,
        }
    }
}

/// When a server was started, and how often since it was last stable.
#[derive(Default)]
struct Starts {
    failures: u32,
    last: Option<Instant>,
}

impl Starts {
    async fn pause(&mut self) {
        if self.last.is_some_and(|at| at.elapsed() > STABLE) {
            self.failures = 0;
        }
        if self.failures > 0 {
            let pause = Duration::from_millis(100 << self.failures.min(16));
            sleep(pause.min(MAX_PAUSE)).await;
        }
        self.failures += 1;
        self.last = Some(Instant::now());
    }
}

pub struct Server {
    config: Config,
    log: McpLog,
    link: RefCell<Option<Link>>,
    starts: Mutex<Starts>,
    /// How many starts have failed, and why the last of them did.
    failed_starts: Cell<u64>,
    last_failure: RefCell<Option<Fault>>,
}

impl Server {
    pub fn new(config: Config, log: McpLog) -> Server {
        Server {
            config,
            log,
            link: RefCell::default(),
            starts: Mutex::default(),
            failed_starts: Cell::default(),
            last_failure: RefCell::default(),
        }
    }

    pub async fn request(self: &Rc<Self>, method: &str, params: &str) -> Answer {
        let limit = self.config.limit;
        let asking = async {
            let link = self.running().await?;
            let answer = link.ask(method, params).await;
            match &link {
                // The server has forgotten the session, as after a restart: the request was not served.
                Link::Http(http) if http.forgotten() => {
                    self.running().await?.ask(method, params).await
                }
                _ => answer,
            }
        };
        timeout(limit, asking).await.unwrap_or_else(|_| {
            Err(Fault::timeout(format!(
                "the MCP server '{}' did not answer within {} s",
                self.config.name,
                limit.as_secs_f64()
            )))
        })
    }

    /// Ends the server, politely at first.
    pub async fn stop(&self) {
        let link = self.link.borrow_mut().take();
        if let Some(link) = link {
            link.stop().await;
        }
    }

    fn alive(&self) -> Option<Link> {
        let link = self.link.borrow();
        link.as_ref().filter(|link| !link.ended()).cloned()
    }

    /// The server, started if it does not run. The start goes on when the request that caused it is cancelled. Requests
    /// that wait for the same start share its failure, so a crowd of them does not line up start behind start.
    async fn running(self: &Rc<Self>) -> Result<Link, Fault> {
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        let server = self.clone();
        let failed_before = self.failed_starts.get();
        let starting = spawn_local(async move {
            let mut starts = server.starts.lock().await;
            if let Some(link) = server.alive() {
                return Ok(link);
            }
            if server.failed_starts.get() > failed_before {
                let failure = server.last_failure.borrow().clone();
                return Err(failure.unwrap_or_else(|| Fault::unreachable("the start failed")));
            }
            starts.pause().await;
            let started = server.start().await;
            match &started {
                Ok(link) => *server.link.borrow_mut() = Some(link.clone()),
                Err(fault) => {
                    server.failed_starts.set(server.failed_starts.get() + 1);
                    *server.last_failure.borrow_mut() = Some(fault.clone());
                }
            }
            started
        });
        let stopped = |_| Err(Fault::unreachable("the engine stops"));
        starting.await.unwrap_or_else(stopped)
    }

    async fn start(&self) -> Result<Link, Fault> {
        let name = &self.config.name;
        let starting = async {
            match &self.config.way {
                Way::Program { command, env } => Stdio::start(name, command, env, self.log)
                    .await
                    .map(Link::Stdio),
                Way::Url(target) => Http::start(name, target).await.map(Link::Http),
            }
        };
        timeout(START, starting).await.unwrap_or_else(|_| {
            Err(Fault::timeout(format!(
                "the MCP server '{name}' did not start within {} s",
                START.as_secs()
            )))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use tokio::task::LocalSet;

    extern "C" fn no_log(_server: Str, _line: Str) {}

    #[test]
    fn requests_that_wait_for_one_start_share_its_failure() {
        let name = format!("pie-mcp-starts-{}", std::process::id());
        let starts = std::env::temp_dir().join(name);
        let script = format!("echo started >> '{}'; sleep 0.2", starts.display());
        let command = ["sh", "-c", &script].map(String::from).to_vec();
        let env = Vec::new();
        let config = Config {
            name: "broken".into(),
            way: Way::Program { command, env },
            limit: Duration::from_secs(60),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let answers = LocalSet::new().block_on(&runtime, async {
            let server = Rc::new(Server::new(config, no_log));
            join_all((0..20).map(|_| server.request("tools/list", "{}"))).await
        });
        assert!(answers.iter().all(|answer| answer.is_err()));
        let started = std::fs::read_to_string(&starts).unwrap();
        std::fs::remove_file(&starts).unwrap();
        assert_eq!(started.lines().count(), 1);
    }
}
