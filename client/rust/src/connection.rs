//! One WebSocket. It matches responses to requests by number and passes all other frames to their
//! processes. When it breaks, every pending call fails, and it stays broken.

use crate::error::{Error, Result};
use crate::flow::Flow;
use crate::limits::{MAX_FRAME_BYTES, MAX_INCOMING_BYTES};
use crate::mailbox::Mailbox;
use crate::mcp::Servers;
use crate::tls;
use crate::wire::{Frame, Numbered, Request};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{connect_async_tls_with_config, MaybeTlsStream, WebSocketStream};

const OPEN: Duration = Duration::from_secs(20);
const CLOSE: Duration = Duration::from_secs(3);
const QUIET: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(40);

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;
pub type Processes = Arc<Mutex<HashMap<String, Arc<Mailbox>>>>;
/// Runs before any frame after the response is processed.
pub type OnOk = Box<dyn FnOnce(&str) + Send>;

struct Pending {
    answer: oneshot::Sender<Result<String>>,
    on_ok: Option<OnOk>,
}

#[derive(Default)]
struct Inside {
    pending: HashMap<u32, Pending>,
    fault: Option<Error>,
}

struct Shared {
    inside: Mutex<Inside>,
    processes: Processes,
    flow: Arc<Flow>,
    mcp: Arc<Servers>,
}

type Sink = Arc<tokio::sync::Mutex<SplitSink<Socket, Message>>>;

pub struct Connection {
    shared: Arc<Shared>,
    sink: Sink,
    number: AtomicU32,
    reader: tokio::task::JoinHandle<()>,
    /// The SHA-256 of the server's certificate; empty if the connection is not encrypted.
    pub certificate_hash: Vec<u8>,
}

/// A request in flight: its number, and its future response.
pub struct Begun {
    pub number: u32,
    answer: oneshot::Receiver<Result<String>>,
}

impl Connection {
    pub async fn open(
        uri: &str,
        ca: Option<&str>,
        processes: Processes,
        flow: Arc<Flow>,
        mcp: Arc<Servers>,
    ) -> Result<Self> {
        let refused = |e: String| Error::ConnectionLost(format!("cannot connect to {uri}: {e}"));
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_INCOMING_BYTES))
            .max_frame_size(Some(MAX_INCOMING_BYTES));
        let connector = tls::connector(ca)?;
        let opening = connect_async_tls_with_config(uri, Some(config), true, Some(connector));
        let (socket, _) = tokio::time::timeout(OPEN, opening)
            .await
            .map_err(|_| refused(format!("no answer within {OPEN:?}")))?
            .map_err(|e| refused(e.to_string()))?;
        let certificate_hash = tls::certificate_hash(socket.get_ref());
        let (sink, stream) = socket.split();
        let sink = Arc::new(tokio::sync::Mutex::new(sink));
        let shared = Arc::new(Shared { inside: Mutex::default(), processes, flow, mcp });
        let reader = tokio::spawn(read(shared.clone(), sink.clone(), stream));
        Ok(Connection { shared, sink, number: AtomicU32::new(0), reader, certificate_hash })
    }

    pub async fn close(&self) {
        self.shared.fail(Error::ConnectionLost("this client was closed".into()));
        let _ = tokio::time::timeout(CLOSE, async { self.sink.lock().await.close().await }).await;
        self.reader.abort();
    }

    pub fn begin(&self, on_ok: Option<OnOk>) -> Result<Begun> {
        let number = self.number.fetch_add(1, Relaxed).wrapping_add(1);
        let (sender, answer) = oneshot::channel();
        let mut inside = self.shared.lock();
        if let Some(fault) = &inside.fault {
            return Err(fault.clone());
        }
        inside.pending.insert(number, Pending { answer: sender, on_ok });
        Ok(Begun { number, answer })
    }

    /// Whether the response has arrived.
    pub fn is_answered(&self, begun: &Begun) -> bool {
        !self.shared.lock().pending.contains_key(&begun.number)
    }

    pub async fn send(&self, number: u32, request: Request<'_>) -> Result<()> {
        if let Some(fault) = &self.shared.lock().fault {
            return Err(fault.clone());
        }
        let frame = rmp_serde::to_vec_named(&Numbered { corr_id: number, request })
            .expect("requests can be serialized");
        if frame.len() > MAX_FRAME_BYTES {
            return Err(Error::TooLarge(format!(
                "the message has {} bytes, but the server accepts at most {MAX_FRAME_BYTES}; send \
                 large data as a file",
                frame.len()
            )));
        }
        let sent = self.sink.lock().await.send(Message::binary(frame)).await;
        sent.map_err(|e| self.shared.fail(lost(e)))
    }

    /// Waits for the response. Returns an error if the server refused the request.
    pub async fn finish(&self, begun: Begun, limit: Option<Duration>) -> Result<String> {
        let _forget = Forget { shared: &self.shared, number: begun.number };
        let _waiting = self.shared.flow.waiting();
        let answer = match limit {
            None => begun.answer.await,
            Some(limit) => tokio::time::timeout(limit, begun.answer).await.map_err(|_| {
                Error::Timeout(format!("the server did not answer within {limit:?}"))
            })?,
        };
        answer.unwrap_or_else(|_| Err(Error::ConnectionLost("the connection was closed".into())))
    }

    pub async fn request(
        &self,
        request: Request<'_>,
        limit: Option<Duration>,
        on_ok: Option<OnOk>,
    ) -> Result<String> {
        let begun = self.begin(on_ok)?;
        let forget = Forget { shared: &self.shared, number: begun.number };
        self.send(begun.number, request).await?;
        std::mem::forget(forget); // from here on `finish` removes the request
        self.finish(begun, limit).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Removes a request whose response is no longer awaited.
struct Forget<'a> {
    shared: &'a Shared,
    number: u32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.lock().pending.remove(&self.number);
    }
}

/// Passes a request on to an MCP server of this client, and its answer back.
async fn serve_mcp(shared: Arc<Shared>, sink: Sink, frame: Frame) {
    let (server, method) =
        (frame.server_name.unwrap_or_default(), frame.method.unwrap_or_default());
    let params = frame.params.unwrap_or_default();
    let (mut ok, mut result) = shared.mcp.relay(&server, &method, &params).await;
    if result.len() > MAX_FRAME_BYTES / 2 {
        (ok, result) = (false, format!("the result has {} bytes, which is too long", result.len()));
    }
    let request = Request::McpResponse { ok, result: &result };
    let corr_id = frame.corr_id.unwrap_or_default();
    let data =
        rmp_serde::to_vec_named(&Numbered { corr_id, request }).expect("it can be serialized");
    let _ = sink.lock().await.send(Message::binary(data)).await;
}

async fn read(shared: Arc<Shared>, sink: Sink, mut stream: SplitStream<Socket>) {
    let fault = loop {
        shared.flow.ready().await;
        let message = match tokio::time::timeout(QUIET, stream.next()).await {
            Ok(message) => message,
            Err(_) => {
                // A missing pong reveals a server that has vanished.
                let _ = sink.lock().await.send(Message::Ping(Default::default())).await;
                match tokio::time::timeout(PONG, stream.next()).await {
                    Ok(message) => message,
                    Err(_) => {
                        break Error::ConnectionLost("the server did not answer a ping".into())
                    }
                }
            }
        };
        match message {
            Some(Ok(Message::Binary(data))) => match shared.take(&data) {
                Ok(None) => {}
                Ok(Some(asked)) => {
                    tokio::spawn(serve_mcp(shared.clone(), sink.clone(), asked));
                }
                Err(fault) => break fault,
            },
            Some(Ok(Message::Close(Some(said)))) => {
                let reason = if said.reason.is_empty() { "no reason given" } else { &said.reason };
                let code = u16::from(said.code);
                let text = format!("the server closed the connection: {reason} ({code})");
                break Error::ConnectionLost(text);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => break lost(error),
            None => break Error::ConnectionLost("the server closed the connection".into()),
        }
    };
    shared.fail(fault);
    let _ = tokio::time::timeout(CLOSE, async { sink.lock().await.close().await }).await;
}

fn lost(error: tungstenite::Error) -> Error {
    Error::ConnectionLost(format!("the connection to the server broke: {error}"))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("the lock is not poisoned")
    }

    /// Returns a frame that asks for an MCP server.
    fn take(&self, data: &[u8]) -> Result<Option<Frame>> {
        let frame: Frame = rmp_serde::from_slice(data).map_err(|e| {
            Error::ConnectionLost(format!("the server sent an invalid message: {e}"))
        })?;
        match frame.kind.as_str() {
            "response" => self.respond(frame),
            "process_event" | "file" => self.deliver(frame)?,
            "mcp_request" => return Ok(Some(frame)),
            _ => {} // a kind of frame that this client does not know
        }
        Ok(None)
    }

    fn respond(&self, frame: Frame) {
        let Some(pending) = self.lock().pending.remove(&frame.corr_id.unwrap_or_default()) else {
            return; // no call waits for it any more
        };
        let text = frame.result.unwrap_or_default();
        let answer = if frame.ok == Some(true) {
            if let Some(on_ok) = pending.on_ok {
                on_ok(&text);
            }
            Ok(text)
        } else {
            Err(Error::Server(text))
        };
        let _ = pending.answer.send(answer);
    }

    fn deliver(&self, frame: Frame) -> Result<()> {
        let id = frame.process_id.clone().unwrap_or_default();
        let mailbox = self.processes.lock().expect("the lock is not poisoned").get(&id).cloned();
        if let Some(mailbox) = mailbox {
            if mailbox.take(frame)? {
                self.processes.lock().expect("the lock is not poisoned").remove(&id);
            }
        }
        Ok(())
    }

    /// Breaks the connection. The first error is kept.
    fn fail(&self, fault: Error) -> Error {
        let mut inside = self.lock();
        if let Some(first) = &inside.fault {
            return first.clone();
        }
        inside.fault = Some(fault.clone());
        let pending = std::mem::take(&mut inside.pending);
        drop(inside);
        for one in pending.into_values() {
            let _ = one.answer.send(Err(fault.clone()));
        }
        let mailboxes: Vec<_> =
            self.processes.lock().expect("the lock is not poisoned").values().cloned().collect();
        for mailbox in mailboxes {
            mailbox.lost(fault.clone());
        }
        fault
    }
}
