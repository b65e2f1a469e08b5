//! Maps failures of HTTP to the codes that guests understand (`wasi:http/types.error-code`).
//!
//! wasmtime-wasi-http keeps the error of a body as its own type, for which its `http-error-code` returns nothing. The
//! function here replaces that one, so a guest learns why a body has ended early.
use super::store::Guest;
use std::error::Error as _;
use std::io;
use tokio_rustls::rustls;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, IoError, TlsAlertReceivedPayload};
use wasmtime_wasi_http::Error;

/// Replaces `http-error-code`.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut types = linker.instance("wasi:http/types@0.2.12")?;
    types.func_wrap(
        "http-error-code",
        |mut store, (error,): (Resource<IoError>,)| {
            let guest: &mut Guest = store.data_mut();
            let error = guest.table.get(&error)?;
            let code = match error.downcast_ref::<Error>() {
                Some(error) => Some(of_any(error)),
                None => error.downcast_ref::<ErrorCode>().cloned(),
            };
            Ok((code,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// The code of an error that the body of a message ended with.
fn of_any(error: &Error) -> ErrorCode {
    match error {
        Error::Hyper(error) => of_hyper(error),
        Error::Connect(error) => of_connect(error),
        Error::Tls(error) => of_tls(error),
        Error::HttpRequestBodySize(limit) => ErrorCode::HttpRequestBodySize(*limit),
        Error::HttpResponseBodySize(limit) => ErrorCode::HttpResponseBodySize(*limit),
        Error::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        Error::ConnectionTerminated => ErrorCode::ConnectionTerminated,
        other => ErrorCode::InternalError(Some(other.to_string())),
    }
}

/// The code of an error while HTTP was spoken over a connection.
pub fn of_hyper(error: &hyper::Error) -> ErrorCode {
    if let Some(cause) = error.source() {
        if let Some(ours) = cause.downcast_ref::<Error>() {
            return of_any(ours);
        }
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return match cause.kind() {
                io::ErrorKind::UnexpectedEof => ErrorCode::HttpResponseIncomplete,
                _ => ErrorCode::ConnectionTerminated,
            };
        }
    }
    if error.is_parse_too_large() {
        return ErrorCode::HttpResponseHeaderSectionSize(None);
    }
    if error.is_incomplete_message() {
        return ErrorCode::HttpResponseIncomplete;
    }
    ErrorCode::HttpProtocolError
}

/// The code of an error while a connection was made.
pub fn of_connect(error: &io::Error) -> ErrorCode {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => ErrorCode::ConnectionRefused,
        io::ErrorKind::TimedOut => ErrorCode::ConnectionTimeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            ErrorCode::DestinationIpUnroutable
        }
        _ => ErrorCode::DestinationUnavailable,
    }
}

/// The code of an error while TLS was agreed upon.
pub fn of_tls(error: &io::Error) -> ErrorCode {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(rustls::Error::InvalidCertificate(_)) => ErrorCode::TlsCertificateError,
        Some(rustls::Error::AlertReceived(alert)) => {
            ErrorCode::TlsAlertReceived(TlsAlertReceivedPayload {
                alert_id: Some(u8::from(*alert)),
                alert_message: Some(format!("{alert:?}")),
            })
        }
        _ => ErrorCode::TlsProtocolError,
    }
}
