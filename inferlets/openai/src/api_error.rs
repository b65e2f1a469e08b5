//! Errors in the forms of the APIs.

use serde_json::{json, Value};

#[derive(Debug)]
pub struct ApiError {
    pub status: u16,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
}

/// Whether the engine refused a pass because its sequence is longer than the model or the KV memory takes. The engine's
/// errors are texts, without codes.
pub fn is_too_long(message: &str) -> bool {
    const TEXTS: [&str; 3] = [
        "the sequence would have ",
        "is past this model's last position",
        "cannot reserve ",
    ];
    TEXTS.iter().any(|text| message.contains(text))
}

impl ApiError {
    pub fn new(status: u16, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            code: Some(code),
            param: None,
            message: message.into(),
        }
    }

    /// A parameter that is missing, malformed or out of range. The name is empty if none is to blame.
    pub fn invalid(param: &str, message: impl Into<String>) -> ApiError {
        let param = (!param.is_empty()).then(|| param.to_string());
        ApiError {
            status: 400,
            code: None,
            param,
            message: message.into(),
        }
    }

    pub fn unknown_model(name: &str) -> ApiError {
        ApiError {
            status: 404,
            code: Some("model_not_found"),
            param: Some("model".into()),
            message: format!("The model `{name}` does not exist; GET /v1/models lists the models"),
        }
    }

    pub fn too_large(message: impl Into<String>) -> ApiError {
        ApiError::new(413, "request_too_large", message)
    }

    /// An error of the engine while it generates. A conversation that is too long is the client's.
    pub fn engine(message: impl Into<String>) -> ApiError {
        let message = message.into();
        if is_too_long(&message) {
            return ApiError::new(400, "context_length_exceeded", message);
        }
        ApiError {
            status: 500,
            code: None,
            param: None,
            message,
        }
    }

    /// A parameter of the API that the engine does not serve.
    pub fn unsupported(param: &str, hint: &str) -> ApiError {
        let text = format!("Unsupported parameter: '{param}' is not served; {hint}");
        ApiError::invalid(param, text).with_code("unsupported_parameter")
    }

    pub fn with_code(mut self, code: &'static str) -> ApiError {
        self.code = Some(code);
        self
    }

    /// Gives a parameter the name that it has in another API.
    pub fn rename(mut self, names: &[(&str, &str)]) -> ApiError {
        if let Some(param) = &mut self.param {
            for (from, to) in names {
                if let Some(rest) = param.strip_prefix(from) {
                    *param = format!("{to}{rest}");
                    self.message = self.message.replace(from, to);
                    break;
                }
            }
        }
        self
    }

    pub fn json(&self) -> Value {
        let kind = if self.status >= 500 {
            "server_error"
        } else {
            "invalid_request_error"
        };
        json!({ "error": {
            "message": self.message, "type": kind, "param": self.param, "code": self.code,
        }})
    }

    /// The form of `/v1/messages`.
    pub fn in_messages_form(&self) -> Value {
        let kind = match self.status {
            404 => "not_found_error",
            413 => "request_too_large",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        let message = match &self.param {
            Some(param) => format!("{param}: {}", self.message),
            None => self.message.clone(),
        };
        json!({ "type": "error", "error": { "type": kind, "message": message } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_that_is_too_long_is_the_clients_error() {
        let error =
            ApiError::engine("the sequence would have 9 tokens; this model takes at most 8");
        assert_eq!(error.status, 400);
        assert_eq!(error.json()["error"]["code"], "context_length_exceeded");
        assert!(is_too_long(
            "position 8 is past this model's last position, 7"
        ));
        assert_eq!(ApiError::engine("the device is gone").status, 500);
    }
}
