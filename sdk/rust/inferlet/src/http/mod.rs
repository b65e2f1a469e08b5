//! HTTP, both ways: requests that an inferlet makes, and requests that it answers.
//!
//! ```ignore
//! let answer = http::get("https://api.example.com/weather").send().await?.text().await?;
//! ```
//!
//! The engine's config names the hosts that inferlets may reach (`[runtime.http] allow`). Redirects are not
//! followed: the answer is the redirect itself, and [`Response::header`] has its `location`.
//!
//! An inferlet answers requests by [`#[inferlet::http_handler]`](crate::http_handler).

mod client;
mod server;
mod stream;

#[doc(hidden)]
pub mod bindings {
    #![allow(clippy::all, missing_docs)]
    wit_bindgen::generate!({
        path: "../../wasi",
        world: "server",
        pub_export_macro: true,
        export_macro_name: "export_http",
        default_bindings_module: "::inferlet::http::bindings",
        with: {
            "wasi:io/poll@0.2.12": crate::wasi::io::poll,
            "wasi:clocks/monotonic-clock@0.2.12": crate::wasi::clocks::monotonic_clock,
        },
        generate_all,
    });
}

pub use client::{get, post, request, Builder, Response};
pub use server::{Body, Request, Responder};

#[doc(hidden)]
pub use server::answer;

use bindings::wasi::http::types::{ErrorCode, Fields, Method};

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_string()),
    }
}

fn name_of(method: Method) -> String {
    match method {
        Method::Get => "GET".into(),
        Method::Head => "HEAD".into(),
        Method::Post => "POST".into(),
        Method::Put => "PUT".into(),
        Method::Delete => "DELETE".into(),
        Method::Connect => "CONNECT".into(),
        Method::Options => "OPTIONS".into(),
        Method::Trace => "TRACE".into(),
        Method::Patch => "PATCH".into(),
        Method::Other(name) => name,
    }
}

type Headers = Vec<(String, String)>;

fn headers_of(fields: &Fields) -> Headers {
    let text =
        |(name, value): (String, Vec<u8>)| (name, String::from_utf8_lossy(&value).into_owned());
    fields.entries().into_iter().map(text).collect()
}

fn find<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    let found = headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// An error of the engine, with what to do about it.
fn describe(url: &str, error: ErrorCode) -> String {
    let why = match error {
        ErrorCode::HttpRequestDenied => {
            "the engine's config does not allow this host; add it to [runtime.http] allow".into()
        }
        ErrorCode::DestinationIpProhibited => {
            "the name leads to an address that is not public; add the address to [runtime.http] allow".into()
        }
        ErrorCode::ConnectionLimitReached => {
            "this inferlet has made too many requests (runtime.http.max_requests, max_in_flight)".into()
        }
        ErrorCode::HttpResponseBodySize(limit) => {
            format!("the response is longer than {} bytes (runtime.http.max_response_mb)", limit.unwrap_or(0))
        }
        ErrorCode::HttpRequestBodySize(_) => {
            "the request's body is too long (runtime.http.max_request_mb)".into()
        }
        ErrorCode::DnsError(dns) => format!("the name was not found: {}", dns.rcode.unwrap_or_default()),
        ErrorCode::ConnectionRefused => "the server refused the connection".into(),
        ErrorCode::ConnectionTimeout => "no connection was made in time".into(),
        ErrorCode::HttpResponseTimeout => "no response came in time".into(),
        ErrorCode::ConnectionReadTimeout => "the response stopped arriving".into(),
        ErrorCode::InternalError(text) => text.unwrap_or_else(|| "internal error".into()),
        other => words(&format!("{other:?}")),
    };
    format!("{url}: {why}")
}

/// The name of a case as words: `ErrorCode::TlsCertificateError` is "tls certificate error".
fn words(debug: &str) -> String {
    let name = debug.rsplit("::").next().unwrap_or_default();
    let name = name.split(['(', ' ']).next().unwrap_or_default();
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}
