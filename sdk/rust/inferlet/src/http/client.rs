//! Requests that an inferlet makes.

use super::bindings::wasi::http::outgoing_handler;
use super::bindings::wasi::http::types::{
    Fields, IncomingBody, IncomingResponse, OutgoingBody, OutgoingRequest, RequestOptions, Scheme,
};
use super::bindings::wasi::io::streams::InputStream;
use super::errors::describe;
use super::{find, headers_of, method, stream, Headers};
use crate::executor::ready;
use crate::Result;
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::time::Duration;

/// The longest body that `text`, `bytes` and `json` collect.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Makes a GET request.
pub fn get(url: &str) -> Builder {
    request("GET", url)
}

/// Makes a POST request.
pub fn post(url: &str) -> Builder {
    request("POST", url)
}

/// Makes a request with any method.
pub fn request(method: &str, url: &str) -> Builder {
    Builder {
        method: method.to_string(),
        url: url.to_string(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: None,
        fault: None,
    }
}

/// A request before it is sent. `send` reports errors in its parts.
pub struct Builder {
    method: String,
    url: String,
    headers: Headers,
    body: Vec<u8>,
    timeout: Option<Duration>,
    fault: Option<String>,
}

impl Builder {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_string(), value.to_string()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends a value as JSON.
    pub fn json(mut self, value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => self.body = body,
            Err(error) => self.fault = Some(format!("the body cannot be written as JSON: {error}")),
        }
        self.header("content-type", "application/json")
    }

    /// How long to wait for the connection, and for the first byte of the response. The engine has a limit of its own.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the request, and returns when the head of the response has arrived.
    pub async fn send(self) -> Result<Response> {
        if let Some(fault) = self.fault {
            return Err(format!("{}: {fault}", self.url));
        }
        let wrong = |what: &str| format!("{}: {what}", self.url);
        let (scheme, rest) = match self.url.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ => return Err(wrong("a URL begins with http:// or https://")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
        let entries: Vec<_> =
            self.headers.iter().map(|(n, v)| (n.clone(), v.clone().into_bytes())).collect();
        let fields = Fields::from_list(&entries).map_err(|e| wrong(&format!("headers: {e:?}")))?;
        if !self.body.is_empty() && find(&self.headers, "content-length").is_none() {
            let length = self.body.len().to_string().into_bytes();
            fields.append("content-length", &length).map_err(|e| wrong(&format!("{e:?}")))?;
        }
        let request = OutgoingRequest::new(fields);
        let refused = |()| wrong("the URL or the method is malformed");
        request.set_method(&method(&self.method)).map_err(refused)?;
        request.set_scheme(Some(&scheme)).map_err(refused)?;
        request.set_authority(Some(authority)).map_err(refused)?;
        request.set_path_with_query(Some(&path)).map_err(refused)?;
        let options = RequestOptions::new();
        if let Some(timeout) = self.timeout {
            let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            options.set_connect_timeout(Some(nanoseconds)).map_err(refused)?;
            options.set_first_byte_timeout(Some(nanoseconds)).map_err(refused)?;
        }
        let body = request.body().map_err(refused)?;
        let pending = outgoing_handler::handle(request, Some(options))
            .map_err(|error| describe(&self.url, error))?;
        let writer = body.write().map_err(refused)?;
        // A server may answer before it has read the whole body; the rest is then not needed.
        let written = stream::write(&writer, &self.body).await;
        drop(writer);
        if written.is_ok() {
            OutgoingBody::finish(body, None).map_err(|error| describe(&self.url, error))?;
        }
        loop {
            match pending.get() {
                None => ready(pending.subscribe()).await,
                Some(Ok(Ok(response))) => return Response::new(self.url, response),
                Some(Ok(Err(error))) => return Err(describe(&self.url, error)),
                Some(Err(())) => return Err(wrong("the response was taken already")),
            }
        }
    }
}

/// A response whose head has arrived. The body arrives as it is read.
pub struct Response {
    url: String,
    status: u16,
    headers: Headers,
    stream: Option<InputStream>,
    _body: IncomingBody,
    _raw: IncomingResponse,
}

impl Response {
    fn new(url: String, raw: IncomingResponse) -> Result<Response> {
        let body = raw.consume().map_err(|()| format!("{url}: the response has no body"))?;
        let stream = body.stream().map_err(|()| format!("{url}: the response has no body"))?;
        Ok(Response {
            url,
            status: raw.status(),
            headers: headers_of(&raw.headers()),
            stream: Some(stream),
            _body: body,
            _raw: raw,
        })
    }

    /// The status code, such as 200.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is from 200 to 299.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The value of the first header of this name, in any case of letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// All headers, in the order of their arrival.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The next bytes of the body. None at its end.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(stream) = &self.stream else {
            return Ok(None);
        };
        let read = stream::read(stream).await;
        read.map_err(|error| format!("{}: {error}", self.url))
    }

    /// The rest of the body. Fails if it is longer than 64 MiB.
    pub async fn bytes(self) -> Result<Vec<u8>> {
        let Some(stream) = &self.stream else {
            return Ok(Vec::new());
        };
        let read = stream::read_all(stream, MAX_BODY_BYTES).await;
        read.map_err(|error| format!("{}: {error}", self.url))
    }

    /// The rest of the body as text. Bytes that are not UTF-8 become U+FFFD.
    pub async fn text(self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes().await?).into_owned())
    }

    /// The rest of the body, parsed. Fails if it is not JSON of this type.
    pub async fn json<T: DeserializeOwned>(self) -> Result<T> {
        let url = self.url.clone();
        let bytes = self.bytes().await?;
        serde_json::from_slice(&bytes)
            .map_err(|e| format!("{url}: the response is not the expected JSON: {e}"))
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        self.stream = None; // before the body that it belongs to
    }
}
