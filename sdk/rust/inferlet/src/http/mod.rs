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
mod errors;
mod server;
mod stream;

#[doc(hidden)]
pub mod bindings {
    #![allow(clippy::all, missing_docs)]
    wit_bindgen::generate!({
        path: "wasi",
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

use bindings::wasi::http::types::{Fields, Method};

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
