//! A server behind a URL: "streamable HTTP". Each message is a POST, whose response is the answer as JSON, or a stream of events
//! with the answer among them.
use super::wire::{self, Answer, Fault, Incoming, MAX_MESSAGE_BYTES, MAX_STRAY_BYTES};
use crate::wasm::http_out::system_tls;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, ACCEPT, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming as Body;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{spawn_local, AbortHandle};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use wasmtime_wasi_http::io::TokioIo;

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
/// The time of a message that has no answer.
const NOTICE: Duration = Duration::from_secs(5);
/// Messages without an answer that wait to be sent.
const MAX_NOTICES: usize = 256;
const MAX_HEAD_BYTES: usize = 64 << 10;
/// How much of a body is shown in an error.
const SHOWN_BYTES: usize = 200;

/// Where the server is, and the headers that the configuration adds.
pub struct Target {
    secure: bool,
    host: String,
    port: u16,
    authority: HeaderValue,
    path: String,
    headers: HeaderMap,
}

impl Target {
    pub fn new(url: &str, headers: Vec<(String, String)>) -> Result<Target, String> {
        let wrong = || format!("the url '{url}' must look like https://example.com/mcp");
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err(format!("{} without a user name", wrong()));
        }
        let mut extra = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || format!("the header '{name}' is not valid");
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            extra.insert(
                key,
                HeaderValue::try_from(value.trim()).map_err(|_| wrong())?,
            );
        }
        Ok(Target {
            secure,
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong())?,
            path: uri
                .path_and_query()
                .map_or("/".into(), |path| path.to_string()),
            headers: extra,
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, which is closed when this is dropped.
struct Connection(AbortHandle);
impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A session with the server.
pub struct Http {
    name: String,
    target: Arc<Target>,
    session: RefCell<Option<HeaderValue>>,
    version: RefCell<HeaderValue>,
    number: Cell<u64>,
    broken: Cell<bool>,
    forgotten: Cell<bool>,
    notices: mpsc::Sender<String>,
}

/// A request. If it is dropped before its answer arrives, the server is told that it was cancelled.
struct Asked<'a> {
    session: &'a Http,
    number: u64,
    waits: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.session.notify(wire::cancelled(self.number));
        }
    }
}

impl Http {
    pub async fn start(name: &str, target: &Arc<Target>) -> Result<Rc<Http>, Fault> {
        let (notices, to_send) = mpsc::channel(MAX_NOTICES);
        let session = Rc::new(Http {
            name: name.to_string(),
            target: target.clone(),
            session: RefCell::default(),
            version: RefCell::new(HeaderValue::from_static(wire::PROTOCOL)),
            number: Cell::new(0),
            broken: Cell::new(false),
            forgotten: Cell::new(false),
            notices,
        });
        let result = session.ask_by(wire::initialize).await?;
        let version = serde_json::from_str::<serde_json::Value>(&result)
            .ok()
            .and_then(|result| HeaderValue::from_str(result["protocolVersion"].as_str()?).ok());
        if let Some(version) = version {
            *session.version.borrow_mut() = version;
        }
        session.post(wire::INITIALIZED.to_string()).await?;
        spawn_local(send_notices(Rc::downgrade(&session), to_send));
        Ok(session)
    }

    pub fn ended(&self) -> bool {
        self.broken.get() || self.forgotten.get()
    }

    /// Whether the server no longer knows the session.
    pub fn forgotten(&self) -> bool {
        self.forgotten.get()
    }

    pub async fn ask(&self, method: &str, params: &str) -> Answer {
        self.ask_by(|number| wire::request(number, method, params))
            .await
    }

    async fn ask_by(&self, message: impl FnOnce(u64) -> String) -> Answer {
        let number = self.number.get() + 1;
        self.number.set(number);
        let mut asked = Asked {
            session: self,
            number,
            waits: number > 1, // the first one initializes, which cannot be cancelled
        };
        let answer = self.answer(number, message(number)).await;
        asked.waits = false;
        answer
    }

    async fn answer(&self, number: u64, message: String) -> Answer {
        let (_connection, response) = self.post(message).await?;
        if let Some(id) = response.headers().get(SESSION) {
            *self.session.borrow_mut() = Some(id.clone());
        }
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.find_in_events(number, response.into_body()).await;
        }
        let body = self.collect(response.into_body()).await?;
        self.find(number, &body).unwrap_or_else(|| {
            let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
            Err(self.fault(format!("sent something that is not an answer: {shown}")))
        })
    }

    /// Ends the session.
    pub async fn stop(&self) {
        if self.session.borrow().is_some() {
            let _ = timeout(NOTICE, self.send(Method::DELETE, String::new())).await;
        }
    }

    fn fault(&self, what: impl std::fmt::Display) -> Fault {
        Fault::unreachable(format!("the MCP server '{}' {what}", self.name))
    }

    fn notify(&self, message: String) {
        let _ = self.notices.try_send(message);
    }

    /// If the message is the answer to the request of this number, returns it.
    fn find(&self, number: u64, message: &[u8]) -> Option<Answer> {
        match wire::read(message) {
            Incoming::Answer(found, answer) if found == number => return Some(answer),
            Incoming::Request(reply) => self.notify(reply),
            _ => {}
        }
        None
    }

    async fn find_in_events(&self, number: u64, mut body: Body) -> Answer {
        let mut events = Events::default();
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| {
                self.fault(format!(
                    "closed the connection in the middle of its answer: {e}"
                ))
            })?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            read += data.len();
            if read > MAX_STRAY_BYTES {
                let most = MAX_STRAY_BYTES >> 20;
                return Err(self.fault(format!("sent {most} MiB without an answer")));
            }
            let mut answer = None;
            events.feed(data, |event| {
                answer = answer.take().or_else(|| self.find(number, event));
            });
            if let Some(answer) = answer {
                return answer;
            }
            if events.bytes() > MAX_MESSAGE_BYTES {
                return Err(self.too_long());
            }
        }
        Err(self.fault("ended its answer early"))
    }

    fn too_long(&self) -> Fault {
        self.fault(format!(
            "sent a message of more than {} MiB",
            MAX_MESSAGE_BYTES >> 20
        ))
    }

    async fn collect(&self, body: Body) -> Result<Bytes, Fault> {
        let body = http_body_util::Limited::new(body, MAX_MESSAGE_BYTES).collect();
        match body.await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(self.too_long()),
            Err(error) => Err(self.fault(format!(
                "closed the connection in the middle of its answer: {error}"
            ))),
        }
    }

    /// Sends a message. The response has a status that says success.
    async fn post(&self, message: String) -> Result<(Connection, Response<Body>), Fault> {
        let (connection, response) = self.send(Method::POST, message).await?;
        let status = response.status();
        if status.is_success() {
            return Ok((connection, response));
        }
        if status == StatusCode::NOT_FOUND && self.session.borrow().is_some() {
            self.forgotten.set(true);
        }
        let body = self.collect(response.into_body()).await.unwrap_or_default();
        let shown = String::from_utf8_lossy(&body[..body.len().min(SHOWN_BYTES)]).into_owned();
        Err(self.fault(format!("answered with the status {status}: {shown}")))
    }

    async fn send(
        &self,
        method: Method,
        message: String,
    ) -> Result<(Connection, Response<Body>), Fault> {
        let sent = self.exchange(method, message).await;
        sent.map_err(|error| {
            self.broken.set(true);
            self.fault(format!("cannot be reached: {error}"))
        })
    }

    async fn exchange(
        &self,
        method: Method,
        message: String,
    ) -> Result<(Connection, Response<Body>), Box<dyn std::error::Error>> {
        let target = &self.target;
        let stream = TcpStream::connect((target.host.as_str(), target.port)).await?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = if target.secure {
            let name = ServerName::try_from(target.host.clone())?;
            let tls = system_tls().await.map_err(|error| format!("{error:?}"))?;
            Box::new(tls.connect(name, stream).await?)
        } else {
            Box::new(stream)
        };
        let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await?;
        let driver = Connection(spawn_local(connection).abort_handle());
        let mut request = Request::builder()
            .method(method)
            .uri(target.path.as_str())
            .header(HOST, &target.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Full::new(Bytes::from(message)))?;
        let headers = request.headers_mut();
        headers.extend(target.headers.clone());
        if let Some(session) = self.session.borrow().as_ref() {
            headers.insert(SESSION, session.clone());
        }
        if self.number.get() > 1 || self.session.borrow().is_some() {
            headers.insert(VERSION, self.version.borrow().clone());
        }
        Ok((driver, sender.send_request(request).await?))
    }
}

/// Sends messages that have no answer, one after another.
async fn send_notices(session: Weak<Http>, mut notices: mpsc::Receiver<String>) {
    while let Some(message) = notices.recv().await {
        let Some(session) = session.upgrade() else {
            return;
        };
        let _ = timeout(NOTICE, session.post(message)).await;
    }
}

/// Splits a stream of server-sent events into the data of each event.
#[derive(Default)]
struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
}

impl Events {
    fn bytes(&self) -> usize {
        self.line.len() + self.data.len()
    }

    fn feed(&mut self, bytes: &[u8], mut event: impl FnMut(&[u8])) {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if let Some(data) = line.strip_prefix(b"data:") {
                if !self.data.is_empty() {
                    self.data.push(b'\n');
                }
                let data = data.strip_prefix(b" ").unwrap_or(data);
                self.data.extend_from_slice(data);
            } else if line.is_empty() && !self.data.is_empty() {
                event(&std::mem::take(&mut self.data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_split_at_blank_lines() {
        let mut found = Vec::new();
        let mut events = Events::default();
        for piece in [
            ": hi\n\neve",
            "nt: message\r\ndata: {\"a\":\r\nda",
            "ta: 1}\r\n\r\ndata:2\n\n",
        ] {
            events.feed(piece.as_bytes(), |event| {
                found.push(String::from_utf8(event.to_vec()).unwrap())
            });
        }
        assert_eq!(found, ["{\"a\":\n1}", "2"]);
        assert_eq!(events.bytes(), 0);
    }

    #[test]
    fn urls_and_headers_are_checked() {
        let target = |url| Target::new(url, vec![("x-key".into(), " 1".into())]);
        let good = target("http://[::1]:80/mcp?x=1").unwrap();
        assert_eq!(
            (good.host.as_str(), good.port, good.secure),
            ("::1", 80, false)
        );
        assert_eq!(good.path, "/mcp?x=1");
        assert_eq!(good.headers["x-key"], "1");
        assert_eq!(target("https://example.com").unwrap().port, 443);
        for url in ["", "example.com", "ftp://x/", "http://", "http://a@b/"] {
            assert!(target(url).is_err(), "{url}");
        }
        assert!(Target::new("http://a/", vec![("a b".into(), "1".into())]).is_err());
    }
}
