//! The messages of JSON-RPC as MCP uses them, and the limits on what a server may send.
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The version of the protocol that the engine offers. Servers of later versions accept it.
pub const PROTOCOL: &str = "2025-06-18";
/// The longest message of a server.
pub const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// The bytes besides answers that a server may send. A server that sends more counts as broken.
pub const MAX_STRAY_BYTES: usize = 64 << 20;

const METHOD_NOT_FOUND: i64 = -32601;
const UNREACHABLE: i64 = -32000;
const TIMEOUT: i64 = -32003;

/// The JSON of a result, or an error.
pub type Answer = Result<String, Fault>;

#[derive(Debug, Clone)]
pub struct Fault {
    code: i64,
    message: String,
    data: Option<String>, // JSON
}

impl Fault {
    /// The server does not answer.
    pub fn unreachable(message: impl Into<String>) -> Fault {
        Fault {
            code: UNREACHABLE,
            message: message.into(),
            data: None,
        }
    }
    pub fn timeout(message: String) -> Fault {
        Fault {
            code: TIMEOUT,
            ..Fault::unreachable(message)
        }
    }
    pub fn to_json(&self) -> String {
        let data = self.data.as_ref();
        let data = data.map_or(String::new(), |data| format!(",\"data\":{data}"));
        let (code, message) = (self.code, quoted(&self.message));
        format!("{{\"code\":{code},\"message\":{message}{data}}}")
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be serialized")
}

/// A message of a server. A field of another type than here makes the message invalid.
#[derive(Deserialize)]
pub struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireError<'a> {
    #[serde(default)]
    code: Option<i64>,
    #[serde(default)]
    message: Option<String>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

/// How the engine treats a message.
pub enum Incoming {
    /// The answer to the request of this number.
    Answer(u64, Answer),
    /// A request of the server, with the reply to it.
    Request(String),
    /// A notification, or a message that the engine does not understand.
    Stray,
}

pub fn read(message: &[u8]) -> Incoming {
    // Without this, a list of the fields' values would be taken for a message.
    if !message.trim_ascii_start().starts_with(b"{") {
        return Incoming::Stray;
    }
    let Ok(message) = serde_json::from_slice::<Message>(message) else {
        return Incoming::Stray;
    };
    let Some(id) = message.id else {
        return Incoming::Stray;
    };
    if let Some(method) = message.method {
        return Incoming::Request(reply(id, &method));
    }
    let Ok(number) = id.get().parse::<u64>() else {
        return Incoming::Stray;
    };
    Incoming::Answer(
        number,
        match (message.error, message.result) {
            (Some(error), _) => Err(fault(error)),
            (None, result) => Ok(result.map_or("null", RawValue::get).to_string()),
        },
    )
}

fn fault(error: &RawValue) -> Fault {
    let is_object = error.get().starts_with('{');
    match serde_json::from_str::<WireError>(error.get()) {
        Ok(error) if is_object => Fault {
            code: error.code.unwrap_or(UNREACHABLE),
            message: error.message.unwrap_or_default(),
            data: error.data.map(|data| data.get().to_string()),
        },
        _ => Fault::unreachable("the server sent an error that is not one of JSON-RPC"),
    }
}

/// The engine offers servers only the method `ping`.
fn reply(id: &RawValue, method: &str) -> String {
    if method == "ping" {
        return format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}");
    }
    let message = quoted("the engine has no such method");
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{METHOD_NOT_FOUND},\"message\":{message}}}}}"
    )
}

pub fn request(number: u64, method: &str, params: &str) -> String {
    let method = quoted(method);
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":{method},\"params\":{params}}}")
}

pub fn initialize(number: u64) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let params = format!(
        "{{\"protocolVersion\":\"{PROTOCOL}\",\"capabilities\":{{}},\
         \"clientInfo\":{{\"name\":\"pie\",\"version\":\"{version}\"}}}}"
    );
    request(number, "initialize", &params)
}

pub const INITIALIZED: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";

pub fn cancelled(number: u64) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
         \"params\":{{\"requestId\":{number},\"reason\":\"the request was cancelled\"}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Option<(u64, Answer)> {
        match read(text.as_bytes()) {
            Incoming::Answer(number, answer) => Some((number, answer)),
            _ => None,
        }
    }

    #[test]
    fn results_pass_through_unchanged() {
        let (number, result) =
            answer(r#"{"jsonrpc":"2.0","id":7,"result":{"b": 1e400, "a":[ ]}}"#).unwrap();
        assert_eq!(number, 7);
        assert_eq!(result.unwrap(), r#"{"b": 1e400, "a":[ ]}"#);
        assert_eq!(answer(r#"{"id":7}"#).unwrap().1.unwrap(), "null");
    }

    #[test]
    fn errors_keep_their_code_and_data() {
        let text = r#"{"id":1,"error":{"code":-5,"message":"no \"x\"","data":{"why":[1]}}}"#;
        let fault = answer(text).unwrap().1.unwrap_err();
        assert_eq!(
            fault.to_json(),
            r#"{"code":-5,"message":"no \"x\"","data":{"why":[1]}}"#
        );
        let fault = answer(r#"{"id":1,"error":"oops"}"#).unwrap().1.unwrap_err();
        assert!(fault.to_json().contains("not one of JSON-RPC"));
    }

    #[test]
    fn anything_else_is_stray() {
        let deep = "[".repeat(1 << 20);
        for text in [
            "",
            "hello",
            "[1]",
            "{}",
            r#"{"id":"a","result":1}"#,
            r#"{"id":-1}"#,
            &deep,
        ] {
            assert!(
                matches!(read(text.as_bytes()), Incoming::Stray),
                "{text:.20}"
            );
        }
        assert!(matches!(
            read(b"{\"id\":1,\"method\":\"ping\"}"),
            Incoming::Request(_)
        ));
        assert!(matches!(read(b"{\"method\":\"x\"}"), Incoming::Stray));
    }
}
