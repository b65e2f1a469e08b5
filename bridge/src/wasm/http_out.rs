//! Outgoing HTTP of guests (`wasi:http/outgoing-handler`): only to hosts of the allow-list, and within limits.
//!
//! A redirect is an ordinary response here: the guest follows it with a request of its own, which is checked as any other. A name
//! is resolved once, its addresses are checked, and the connection is made to one of these addresses; so a name that resolves
//! differently a moment later changes nothing.
use super::http_allow::AllowList;
use super::http_errors;
use super::runtime::Callbacks;
use crate::abi::{GuestPtr, Str};
use bytes::Bytes;
use http::uri::Scheme;
use http::{Method, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::{sleep_until, timeout_at, Instant, Sleep};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{crypto::ring, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::p2::bindings::http::types::ErrorCode;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

/// The hosts that guests may reach by HTTP, and the limits on their requests.
#[repr(C)]
pub struct HttpConfig {
    /// The entries of the allow-list, one per line. If it is empty, guests reach no host.
    pub allow: Str,
    /// Requests of one guest: all of them, and those at the same time.
    pub max_requests: u32,
    pub max_in_flight: u32,
    /// Bytes of one body.
    pub max_request_bytes: u64,
    pub max_response_bytes: u64,
    /// Time of one request, from its start to the last byte of its response.
    pub timeout_ms: u64,
}

/// The largest head of a response.
const MAX_HEAD_BYTES: usize = 128 << 10;
/// How many addresses of a name are tried.
const MAX_ADDRESSES: usize = 4;
/// Names that are looked up for one user at the same time.
const LOOKUPS_OF_A_USER: usize = 16;

/// The configuration as the guests of a runtime share it.
pub struct HttpPolicy {
    allow: AllowList,
    max_requests: u32,
    max_in_flight: u32,
    max_request_bytes: u64,
    max_response_bytes: u64,
    timeout: Duration,
    lookups: Lookups,
}

/// Limits the lookups of names by user. Each holds a thread until the system's resolver answers or gives up, which may take many
/// seconds and does not end with the request.
#[derive(Default)]
struct Lookups(Mutex<HashMap<u64, Weak<Semaphore>>>);

impl Lookups {
    fn of(&self, user: u64) -> Arc<Semaphore> {
        let mut users = self.0.lock().unwrap();
        users.retain(|_, lookups| lookups.strong_count() > 0);
        let found = users.get(&user).and_then(Weak::upgrade);
        found.unwrap_or_else(|| {
            let made = Arc::new(Semaphore::new(LOOKUPS_OF_A_USER));
            users.insert(user, Arc::downgrade(&made));
            made
        })
    }

    async fn look_up(
        &self,
        user: u64,
        resolve: impl FnOnce() -> io::Result<Vec<SocketAddr>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let turn = self.of(user).acquire_owned().await;
        let resolve = move || {
            let found = resolve();
            drop(turn); // only now: this thread goes on even if its caller no longer waits
            found
        };
        let done = tokio::task::spawn_blocking(resolve).await;
        done.map_err(io::Error::other)?
    }
}

impl HttpPolicy {
    pub fn new(config: &HttpConfig) -> Result<HttpPolicy, String> {
        let allow = unsafe { config.allow.to_string_lossy() };
        Ok(HttpPolicy {
            allow: AllowList::parse(allow.lines())?,
            max_requests: config.max_requests,
            max_in_flight: config.max_in_flight,
            max_request_bytes: config.max_request_bytes,
            max_response_bytes: config.max_response_bytes,
            timeout: Duration::from_millis(config.timeout_ms),
            lookups: Lookups::default(),
        })
    }

    /// Resolves the host, and connects to the first of its addresses that the list allows and that answers.
    async fn connect(&self, host: &str, port: u16, user: u64) -> Result<TcpStream, Error> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if !self.allow.names(bare, port) {
            return Err(Error::HttpRequestDenied);
        }
        let found = match bare.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => {
                let name = bare.to_string();
                let resolve = move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter);
                self.lookups.look_up(user, resolve).await
            }
        };
        let found = found.map_err(|error| Error::DnsError {
            rcode: Some(error.to_string()),
            info_code: None,
        })?;
        let allowed = found
            .iter()
            .filter(|address| self.allow.reaches(bare, address.ip(), port));
        let mut problem = if found.is_empty() {
            Error::DestinationNotFound
        } else {
            Error::DestinationIpProhibited
        };
        for address in allowed.take(MAX_ADDRESSES) {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => problem = Error::Connect(error),
            }
        }
        Err(problem)
    }
}

/// TLS with the system's certificates. It is made once, at the first request that needs it, because reading them takes
/// milliseconds.
pub async fn system_tls() -> Result<&'static TlsConnector, Error> {
    static TLS: OnceCell<TlsConnector> = OnceCell::const_new();
    let make = || async {
        let roots = tokio::task::spawn_blocking(system_roots);
        let roots = roots.await.map_err(|_| Error::ConfigurationError)?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::ConfigurationError)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    };
    TLS.get_or_try_init(make).await
}

fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type Io = Box<dyn Future<Output = Result<(), Error>> + Send>;
type Reply = Result<(Response<WasiBody>, Io), Error>;

/// The outgoing HTTP of one guest.
pub struct HttpOut {
    policy: Arc<HttpPolicy>,
    requests: u32,
    in_flight: Arc<AtomicU32>,
    /// Sockets that were charged: the most requests that were in flight at once.
    charged: u32,
    callbacks: Callbacks,
    guest: usize,
    user: u64,
}

/// Counts a request as long as its response is read.
struct InFlight(Arc<AtomicU32>);
impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl HttpOut {
    pub fn new(
        policy: Arc<HttpPolicy>,
        callbacks: Callbacks,
        guest: GuestPtr,
        user: u64,
    ) -> HttpOut {
        HttpOut {
            policy,
            requests: 0,
            in_flight: Arc::default(),
            charged: 0,
            callbacks,
            guest: guest as usize,
            user,
        }
    }

    fn begin(&mut self) -> Result<InFlight, Error> {
        if self.requests >= self.policy.max_requests
            || self.in_flight.load(Relaxed) >= self.policy.max_in_flight
        {
            return Err(Error::ConnectionLimitReached);
        }
        if self.in_flight.load(Relaxed) >= self.charged {
            if !(self.callbacks.open_files)(self.guest as GuestPtr, 1) {
                return Err(Error::ConnectionLimitReached);
            }
            self.charged += 1;
        }
        self.requests += 1;
        self.in_flight.fetch_add(1, Relaxed);
        Ok(InFlight(self.in_flight.clone()))
    }
}

impl WasiHttpHooks for HttpOut {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _io: Io,
    ) -> Box<dyn Future<Output = Reply> + Send> {
        let begun = self.begin();
        let (policy, user) = (self.policy.clone(), self.user);
        let options = options.unwrap_or_default();
        Box::new(async move { send(&policy, user, begun?, request, options).await })
    }
    fn p2_error_from_hyper(&mut self, error: &hyper::Error) -> ErrorCode {
        http_errors::of_hyper(error)
    }
    fn p2_error_from_connect(&mut self, error: &std::io::Error) -> ErrorCode {
        http_errors::of_connect(error)
    }
    fn p2_error_from_tls(&mut self, error: &std::io::Error) -> ErrorCode {
        http_errors::of_tls(error)
    }
    // A guest may hold thousands of bodies, each with this much.
    fn p2_outgoing_body_buffer_chunks(&mut self) -> usize {
        1
    }
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_BYTES
    }
}

/// How much of a body is buffered.
const BODY_CHUNK_BYTES: usize = 16 << 10;

async fn send(
    policy: &HttpPolicy,
    user: u64,
    in_flight: InFlight,
    mut request: Request<WasiBody>,
    options: RequestOptions,
) -> Reply {
    let end = Instant::now() + policy.timeout;
    let until =
        |limit: Option<Duration>| limit.map_or(end, |limit| end.min(Instant::now() + limit));
    if request.method() == Method::CONNECT {
        return Err(Error::HttpRequestMethodInvalid);
    }
    let uri = std::mem::take(request.uri_mut());
    let secure = uri.scheme() == Some(&Scheme::HTTPS);
    let (Some(host), Some(authority)) = (uri.host(), uri.authority()) else {
        return Err(Error::HttpRequestUriInvalid);
    };
    if authority.as_str().contains('@') {
        return Err(Error::HttpRequestUriInvalid);
    }
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });

    let connecting = async {
        let stream = policy.connect(host, port, user).await?;
        let _ = stream.set_nodelay(true);
        if !secure {
            return Ok::<_, Error>(Box::new(stream) as Box<dyn Stream>);
        }
        let name = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_string());
        let name = name.map_err(|_| Error::HttpRequestUriInvalid)?;
        let stream = system_tls().await?.connect(name, stream).await;
        Ok(Box::new(stream.map_err(Error::Tls)?) as Box<dyn Stream>)
    };
    let stream = timeout_at(until(options.connect_timeout), connecting)
        .await
        .map_err(|_| Error::ConnectionTimeout)??;

    // A server that is no proxy gets the path alone. wasmtime-wasi-http has put the host into a header.
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::try_from(path).map_err(|_| Error::HttpRequestUriInvalid)?;
    let limit = policy.max_request_bytes;
    let request = request.map(|body| RequestBody { body, left: limit });
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await?;
    let driver =
        wasmtime_wasi::runtime::spawn(async move { connection.await.map_err(Error::from) });
    let response = timeout_at(
        until(options.first_byte_timeout),
        sender.send_request(request),
    )
    .await
    .map_err(|_| Error::HttpResponseTimeout)??;
    let between = options.between_bytes_timeout.unwrap_or(policy.timeout);
    let response = response.map(|body| {
        let body = ResponseBody {
            body,
            left: policy.max_response_bytes,
            limit: policy.max_response_bytes,
            end,
            between,
            silence: Box::pin(sleep_until(end.min(Instant::now() + between))),
            _in_flight: in_flight,
        };
        body.boxed_unsync()
    });
    // The guest's handle of the body keeps this future, which keeps the connection.
    Ok((response, Box::new(driver)))
}

/// The body of a request, up to a limit.
struct RequestBody {
    body: WasiBody,
    left: u64,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            let Some(left) = self.left.checked_sub(bytes) else {
                return Poll::Ready(Some(Err(Error::HttpRequestBodySize(None))));
            };
            self.left = left;
        }
        polled
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, up to a limit of bytes and of time.
struct ResponseBody {
    body: hyper::body::Incoming,
    left: u64,
    limit: u64,
    end: Instant,
    between: Duration,
    silence: Pin<Box<Sleep>>,
    _in_flight: InFlight,
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
                let Some(left) = self.left.checked_sub(bytes) else {
                    let error = Error::HttpResponseBodySize(Some(self.limit));
                    return Poll::Ready(Some(Err(error)));
                };
                self.left = left;
                let next = self.end.min(Instant::now() + self.between);
                self.silence.as_mut().reset(next);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match self.silence.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(Err(Error::ConnectionReadTimeout))),
                Poll::Pending => Poll::Pending,
            },
        }
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const LATE: Duration = Duration::from_secs(20);

    /// A resolver that never answers holds the threads of one user's lookups, and no others.
    #[test]
    fn lookups_of_one_user_leave_threads_for_others() {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(LOOKUPS_OF_A_USER + 1)
            .build()
            .unwrap();
        let lookups = Arc::new(Lookups::default());
        let (begin, begun) = channel();
        let mut holds = vec![];
        for _ in 0..2 * LOOKUPS_OF_A_USER {
            let (hold, held) = channel::<()>();
            holds.push(hold);
            let (lookups, begin) = (lookups.clone(), begin.clone());
            tokio.spawn(async move {
                let resolve = move || {
                    begin.send(()).unwrap();
                    let _ = held.recv_timeout(LATE);
                    Ok(vec![])
                };
                lookups.look_up(1, resolve).await
            });
        }
        for _ in 0..LOOKUPS_OF_A_USER {
            begun.recv_timeout(LATE).unwrap();
        }
        let other = lookups.look_up(2, || Ok(vec![]));
        assert!(tokio.block_on(other).is_ok());
        assert!(begun.try_recv().is_err(), "user 1 has more than a share");
        drop(holds); // the first ones end, and the others follow
        for _ in 0..LOOKUPS_OF_A_USER {
            begun.recv_timeout(LATE).unwrap();
        }
    }
}
