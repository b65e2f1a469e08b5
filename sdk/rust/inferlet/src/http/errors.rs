//! Translates errors of `wasi:http` into texts that say what went wrong and what to do.

use super::bindings::wasi::http::types::{http_error_code, ErrorCode};
use super::bindings::wasi::io::error::Error as IoError;

/// The reason why a request failed, as it stands after the URL in the error.
pub(super) fn describe(url: &str, error: ErrorCode) -> String {
    format!("{url}: {}", why(error))
}

/// Why a body ended early.
pub(super) fn of_stream(error: &IoError) -> String {
    http_error_code(error).map_or_else(|| error.to_debug_string(), why)
}

fn why(error: ErrorCode) -> String {
    let text = match error {
        ErrorCode::HttpRequestDenied => {
            "the engine's config does not allow this host; add it to [runtime.http] allow"
        }
        ErrorCode::DestinationIpProhibited => {
            "the name leads to an address that is not public; add the address to [runtime.http] allow"
        }
        ErrorCode::ConnectionLimitReached => {
            "this inferlet has made too many requests (runtime.http.max_requests, max_in_flight)"
        }
        ErrorCode::HttpResponseBodySize(Some(limit)) => {
            return format!(
                "the response is longer than {limit} bytes (runtime.http.max_response_mb)"
            )
        }
        ErrorCode::HttpRequestBodySize(_) => {
            "the request's body is too long (runtime.http.max_request_mb)"
        }
        ErrorCode::DnsError(dns) => {
            return format!("the name was not found: {}", dns.rcode.unwrap_or_default())
        }
        ErrorCode::DestinationNotFound => "the name has no address",
        ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => {
            "the host cannot be reached"
        }
        ErrorCode::ConnectionRefused => "the server refused the connection",
        ErrorCode::ConnectionTerminated => "the other side has closed the connection",
        ErrorCode::ConnectionTimeout => "no connection was made in time",
        ErrorCode::ConnectionReadTimeout => "the response did not arrive in time (runtime.http.timeout_secs)",
        ErrorCode::TlsProtocolError => "TLS failed; the port may speak plain HTTP",
        ErrorCode::TlsCertificateError => {
            "the server's certificate is not valid; the engine trusts the certificates of its system"
        }
        ErrorCode::TlsAlertReceived(alert) => {
            let alert = alert.alert_message.unwrap_or_default();
            return format!("the server refused to speak TLS: {alert}");
        }
        ErrorCode::HttpRequestMethodInvalid => "the engine does not send requests with this method",
        ErrorCode::HttpRequestUriInvalid => {
            "the URL is malformed, or has a user and a password; send these in a header"
        }
        ErrorCode::HttpResponseTimeout => "no response came in time",
        ErrorCode::HttpResponseIncomplete => "the response ended before it was complete",
        ErrorCode::HttpResponseHeaderSectionSize(_) => "the head of the response is too long",
        ErrorCode::HttpProtocolError => "the server's answer is not HTTP",
        ErrorCode::InternalError(Some(text)) => return text,
        other => return words(&format!("{other:?}")),
    };
    text.into()
}

/// The name of a case as words: `ErrorCode::LoopDetected` is "loop detected".
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
