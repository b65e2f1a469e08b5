"""The meaning of errors of `wasi:http`, and what to do about them."""

from __future__ import annotations

import re
from typing import Any

from wit_world.imports import wasi_http_types as wit

_TEXTS = {
    "HttpRequestDenied": (
        "the engine's config does not allow this host; add it to [runtime.http] allow"
    ),
    "DestinationIpProhibited": (
        "the name leads to an address that is not public; add the address to [runtime.http] allow"
    ),
    "ConnectionLimitReached": (
        "this inferlet has made too many requests (runtime.http.max_requests, max_in_flight)"
    ),
    "HttpRequestBodySize": "the request's body is too long (runtime.http.max_request_mb)",
    "DestinationNotFound": "the name has no address",
    "DestinationUnavailable": "the host cannot be reached",
    "DestinationIpUnroutable": "the host cannot be reached",
    "ConnectionRefused": "the server refused the connection",
    "ConnectionTerminated": "the other side has closed the connection",
    "ConnectionTimeout": "no connection was made in time",
    "ConnectionReadTimeout": "the response did not arrive in time (runtime.http.timeout_secs)",
    "TlsProtocolError": "TLS failed; the port may speak plain HTTP",
    "TlsCertificateError": (
        "the server's certificate is not valid; the engine trusts the certificates of its system"
    ),
    "HttpRequestMethodInvalid": "the engine does not send requests with this method",
    "HttpRequestUriInvalid": (
        "the URL is malformed, or has a user and a password; send these in a header"
    ),
    "HttpResponseTimeout": "no response came in time",
    "HttpResponseIncomplete": "the response ended before it was complete",
    "HttpResponseHeaderSectionSize": "the head of the response is too long",
    "HttpProtocolError": "the server's answer is not HTTP",
}


def describe(code: Any) -> str:
    """Why a request failed."""
    match code:
        case wit.ErrorCode_HttpResponseBodySize(value=limit):
            return f"the response is longer than {limit} bytes (runtime.http.max_response_mb)"
        case wit.ErrorCode_DnsError(value=dns):
            return f"the name was not found: {dns.rcode or ''}"
        case wit.ErrorCode_TlsAlertReceived(value=alert):
            return f"the server refused to speak TLS: {alert.alert_message or ''}"
        case wit.ErrorCode_InternalError(value=text) if text:
            return text
        case _:
            return _TEXTS.get(_case_of(code)) or words(code)


def describe_io(error: Any) -> str:
    """Why a body ended early, by an error of `wasi:io`."""
    code = wit.http_error_code(error)
    return error.to_debug_string() if code is None else describe(code)


def words(case: Any) -> str:
    """The name of a variant's case as words: `loop detected`."""
    return " ".join(re.findall(r"[A-Z][a-z0-9]*", _case_of(case))).lower()


def _case_of(case: Any) -> str:
    return type(case).__name__.rpartition("_")[2]
