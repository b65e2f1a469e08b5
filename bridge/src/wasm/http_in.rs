//! Incoming HTTP: the request that an instance answers, and its response on the way to C++.
//!
//! C++ owns the socket and parses HTTP. It hands over a head and then the body, piece by piece; it passes the next piece when the
//! guest has taken the one before (`on_body_taken`). The response goes the other way, and waits for `room` as stdout does.
use super::runtime::Callbacks;
use super::signal::waiter;
use crate::abi::{guarded, GuestPtr, Str};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, Scheme};
use wasmtime_wasi_http::p2::body::HyperOutgoingBody;
use wasmtime_wasi_http::Error;

/// The head of a request, as C++ has parsed it.
#[repr(C)]
pub struct RequestHead {
    pub method: Str,
    /// The path and the query.
    pub target: Str,
    /// The host that the client named.
    pub authority: Str,
    pub secure: bool,
    /// Lines of the form `name:value`.
    pub headers: Str,
    /// The guest's environment variable `PIE_INPUT`. Empty: the guest has no such variable.
    pub input: Str,
}

enum Piece {
    Data(Bytes),
    End,
}

/// Where C++ puts the body of a request.
pub struct BodySender(mpsc::UnboundedSender<Piece>);

/// The guest's C++ object as long as it may be called: until its `on_exit`.
#[derive(Clone)]
pub struct GuestLink(Arc<Mutex<Option<usize>>>, Callbacks);

impl GuestLink {
    pub fn new(guest: GuestPtr, callbacks: Callbacks) -> GuestLink {
        GuestLink(Arc::new(Mutex::new(Some(guest as usize))), callbacks)
    }
    /// Waits for a call that is under way. After this returns, there is none.
    pub fn cut(&self) {
        *self.0.lock().unwrap() = None;
    }
    fn call(&self, f: impl FnOnce(GuestPtr, &Callbacks)) {
        if let Some(guest) = *self.0.lock().unwrap() {
            f(guest as GuestPtr, &self.1);
        }
    }
}

/// The body of a request as the guest reads it.
pub struct RequestBody {
    pieces: mpsc::UnboundedReceiver<Piece>,
    ended: bool,
    guest: GuestLink,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Error;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.pieces.poll_recv(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(Piece::Data(bytes))) => {
                self.guest
                    .call(|guest, callbacks| (callbacks.on_body_taken)(guest));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(Some(Piece::End)) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(Some(Err(Error::ConnectionTerminated)))
            }
        }
    }
    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

/// A request on its way into an instance.
pub struct Incoming {
    pub request: Request<RequestBody>,
    pub scheme: Scheme,
    pub input: String,
}

impl Incoming {
    /// # Safety
    /// The strings of the head are valid.
    pub unsafe fn new(
        head: &RequestHead,
        guest: GuestLink,
    ) -> (Result<Incoming, String>, BodySender) {
        let (sender, pieces) = mpsc::unbounded_channel();
        let body = RequestBody {
            pieces,
            ended: false,
            guest,
        };
        (Incoming::parse(head, body), BodySender(sender))
    }

    unsafe fn parse(head: &RequestHead, body: RequestBody) -> Result<Incoming, String> {
        let text = |part: Str| part.to_string_lossy();
        let method = Method::from_bytes(head.method.as_bytes()).map_err(|e| e.to_string())?;
        let scheme = if head.secure { "https" } else { "http" };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(text(head.authority))
            .path_and_query(text(head.target))
            .build()
            .map_err(|e| e.to_string())?;
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        for line in head.headers.as_bytes().split(|byte| *byte == b'\n') {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let name = HeaderName::from_bytes(&line[..colon]).map_err(|e| e.to_string())?;
            let value = HeaderValue::from_bytes(&line[colon + 1..]).map_err(|e| e.to_string())?;
            request.headers_mut().append(name, value);
        }
        let scheme = if head.secure {
            Scheme::Https
        } else {
            Scheme::Http
        };
        let input = text(head.input);
        Ok(Incoming {
            request,
            scheme,
            input,
        })
    }
}

/// The place into which an instance puts its response.
pub type Answer = Result<http::Response<HyperOutgoingBody>, ErrorCode>;

/// Passes the response to C++, from its head to the end of its body. Returns why there is none.
pub async fn pass_response(
    answer: oneshot::Receiver<Answer>,
    guest: &GuestLink,
) -> Result<(), String> {
    let response = match answer.await {
        Ok(Ok(response)) => response,
        Ok(Err(code)) => return Err(format!("the inferlet answered with an error: {code:?}")),
        Err(_) => return Err("the inferlet ended without a response".into()),
    };
    let (parts, mut body) = response.into_parts();
    let headers = header_lines(&parts.headers);
    guest.call(|guest, callbacks| {
        (callbacks.on_response)(guest, parts.status.as_u16(), Str::bytes(&headers))
    });
    let mut complete = true;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            complete = false;
            break;
        };
        let Ok(data) = frame.into_data() else {
            continue; // trailers
        };
        guest.call(|guest, callbacks| (callbacks.on_response_body)(guest, Str::bytes(&data)));
        loop {
            let mut room = None;
            guest.call(|guest, callbacks| room = unsafe { waiter((callbacks.room)(guest)) });
            match room {
                Some(room) => room.fired().await,
                None => break,
            }
        }
    }
    guest.call(|guest, callbacks| (callbacks.on_response_end)(guest, complete));
    Ok(())
}

fn header_lines(headers: &HeaderMap) -> Vec<u8> {
    let mut lines = Vec::new();
    for (name, value) in headers {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.push(b':');
        lines.extend_from_slice(value.as_bytes());
        lines.push(b'\n');
    }
    lines
}

impl BodySender {
    pub fn pass(&self, bytes: &[u8]) {
        guarded((), || {
            drop(self.0.send(Piece::Data(Bytes::copy_from_slice(bytes))))
        })
    }
    pub fn end(&self) {
        guarded((), || drop(self.0.send(Piece::End)))
    }
}
