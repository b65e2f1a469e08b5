//! The OpenAI API as an inferlet. `pie serve` routes `/v1` to it; a changed copy of it can be served in the same way.
//!
//! Each request runs in an instance of its own, on behalf of the user whose API key it carries. Equal beginnings of
//! conversations are shared by the engine, so a conversation that goes on is not computed again.

mod api_error;
mod chat;
mod choices;
mod completions;
mod options;
mod reply;
mod stops;
mod tools;

use api_error::ApiError;
use inferlet::http::{Request, Responder};
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Value};

const MAX_BODY_BYTES: usize = 32 << 20;

#[inferlet::http_handler]
async fn serve(mut request: Request, respond: Responder) -> Result<()> {
    // The part of the path that the API names, wherever it is mounted.
    let path = request.path().trim_end_matches('/').to_string();
    let path = path
        .rsplit_once("/v1/")
        .map_or("", |(_, rest)| rest)
        .to_string();
    let method = request.method().to_string();
    match (method.as_str(), path.as_str()) {
        ("GET", "models") => {
            let data: Vec<Value> = runtime::models().iter().map(|name| model(name)).collect();
            reply::send(respond, &json!({ "object": "list", "data": data })).await
        }
        ("GET", path) if path.starts_with("models/") => {
            let name = path["models/".len()..].replace("%2F", "/");
            match runtime::models().contains(&name) {
                true => reply::send(respond, &model(&name)).await,
                false => reply::fail(respond, ApiError::unknown_model(&name)).await,
            }
        }
        ("POST", "chat/completions" | "completions") => {
            let parsed = match request.body(MAX_BODY_BYTES).await {
                Ok(body) => parse(&body),
                Err(error) => Err(ApiError::too_large(error)),
            };
            match parsed {
                Err(error) => reply::fail(respond, error).await,
                Ok(body) if path == "completions" => completions::serve(body, respond).await,
                Ok(body) => chat::serve(body, respond).await,
            }
        }
        ("POST", "embeddings" | "responses") => {
            let text = format!("/v1/{path} is not served by this engine yet");
            reply::fail(respond, ApiError::new(501, "not_implemented", text)).await
        }
        (_, "models" | "chat/completions" | "completions") => {
            let text = format!("Not allowed to {method} on /v1/{path}");
            reply::fail(respond, ApiError::new(405, "method_not_supported", text)).await
        }
        _ => {
            let text = format!("Invalid URL ({method} {})", request.path());
            reply::fail(respond, ApiError::new(404, "unknown_url", text)).await
        }
    }
}

fn parse(body: &[u8]) -> std::result::Result<Value, ApiError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(Value::Object(fields)),
        Ok(_) => Err(ApiError::invalid("", "the body must be a JSON object")),
        Err(error) => Err(ApiError::invalid(
            "",
            format!("the body is not JSON: {error}"),
        )),
    }
}

fn model(name: &str) -> Value {
    json!({ "id": name, "object": "model", "created": 0, "owned_by": "pie" })
}
