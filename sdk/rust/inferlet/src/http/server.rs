//! Requests that an inferlet answers.

use super::bindings::wasi::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingResponse,
    ResponseOutparam,
};
use super::bindings::wasi::io::streams::{InputStream, OutputStream};
use super::{find, headers_of, name_of, stream, Headers};
use crate::executor;
use crate::Result;
use std::future::Future;

/// A request from a client.
pub struct Request {
    method: String,
    target: String,
    headers: Headers,
    stream: Option<InputStream>,
    // After the stream, which is dropped before the body that it belongs to.
    _body: Option<IncomingBody>,
}

impl Request {
    fn new(raw: &IncomingRequest) -> Request {
        let body = raw.consume().ok();
        Request {
            method: name_of(raw.method()),
            target: raw.path_with_query().unwrap_or_else(|| "/".into()),
            headers: headers_of(&raw.headers()),
            stream: body.as_ref().and_then(|body| body.stream().ok()),
            _body: body,
        }
    }

    /// The method in capitals, such as `GET`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The part of the URL after the question mark, or an empty text.
    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The value of the first header of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// All headers, in the order of their arrival.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Reads the rest of the body. Fails if it is longer than `limit` bytes.
    pub async fn body(&mut self, limit: usize) -> Result<Vec<u8>> {
        match &self.stream {
            Some(stream) => stream::read_all(stream, limit).await,
            None => Ok(Vec::new()),
        }
    }

    /// The next bytes of the body. None at its end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        match &self.stream {
            Some(stream) => stream::read(stream).await,
            None => Ok(None),
        }
    }
}

/// The place for the one response to a request. Dropping it unused is an error that the client sees.
pub struct Responder {
    out: Option<ResponseOutparam>,
    status: u16,
    headers: Headers,
}

impl Responder {
    /// Sets the status code. The default is 200.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    /// Sends the head of the response. The body follows as it is written.
    pub fn start(mut self) -> Result<Body> {
        let entries: Vec<_> =
            self.headers.iter().map(|(n, v)| (n.clone(), v.clone().into_bytes())).collect();
        let fields = Fields::from_list(&entries).map_err(|e| format!("headers: {e:?}"))?;
        let response = OutgoingResponse::new(fields);
        let status = self.status;
        response.set_status_code(status).map_err(|()| format!("{status} is no HTTP status"))?;
        let body = response.body().map_err(|()| "the response has no body".to_string())?;
        let stream = body.write().map_err(|()| "the response has no body".to_string())?;
        if let Some(out) = self.out.take() {
            ResponseOutparam::set(out, Ok(response));
        }
        Ok(Body { stream: Some(stream), body: Some(body) })
    }

    /// Sends the whole response.
    pub async fn send(self, body: impl AsRef<[u8]>) -> Result<()> {
        let length = body.as_ref().len().to_string();
        let mut writer = self.header("content-length", &length).start()?;
        writer.write(body).await?;
        writer.finish()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if let Some(out) = self.out.take() {
            let text = "the inferlet sent no response".to_string();
            ResponseOutparam::set(out, Err(ErrorCode::InternalError(Some(text))));
        }
    }
}

/// The body of a response. If `finish` is not called, the client sees that the body was cut off.
pub struct Body {
    stream: Option<OutputStream>,
    body: Option<OutgoingBody>,
}

impl Body {
    /// Writes to the body. Waits while the client reads slowly, and fails if the client has left.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        match &self.stream {
            Some(stream) => stream::write(stream, bytes.as_ref()).await,
            None => Err("the body is finished".into()),
        }
    }

    /// Ends the body. Fails if the client has left.
    pub fn finish(mut self) -> Result<()> {
        self.stream = None; // before the body that it belongs to
        match self.body.take() {
            Some(body) => OutgoingBody::finish(body, None).map_err(|e| format!("{e:?}")),
            None => Ok(()),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.stream = None;
    }
}

/// `#[inferlet::http_handler]` expands to a call of this function.
#[doc(hidden)]
pub fn answer<F>(
    raw: IncomingRequest,
    out: ResponseOutparam,
    handler: impl FnOnce(Request, Responder) -> F,
) where
    F: Future<Output = Result<()>> + 'static,
{
    let request = Request::new(&raw);
    let responder = Responder { out: Some(out), status: 200, headers: Vec::new() };
    match executor::run(handler(request, responder)) {
        Some(Ok(())) => {}
        Some(Err(error)) => eprintln!("{error}"),
        None => eprintln!(
            "every task waits for another one: nothing is left that could wake the inferlet"
        ),
    }
}
