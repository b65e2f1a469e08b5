//! The OpenAI API and the Anthropic API as an inferlet. `pie serve` routes `/v1` to it. A changed copy can be served in the
//! same way.
//!
//! Each request runs in an instance of its own, on behalf of the user whose API key it carries. The engine shares the pages
//! of equal beginnings, so a conversation that goes on is not computed again.

mod api_error;
mod auto_calls;
mod chat;
mod choices;
mod completions;
mod draw;
mod embeddings;
mod forms;
mod messages;
mod models;
mod options;
mod prompt;
mod prompt_scores;
mod reply;
mod responses;
mod scored;
mod speech;
mod stops;
mod store;
mod thinking;
mod thoughts;
mod tools;
mod visible;

use api_error::ApiError;
use inferlet::http::{Request, Responder};
use inferlet::prelude::*;
use serde_json::{Map, Value};

const MAX_BODY_BYTES: usize = 32 << 20;
/// The routes that take a JSON object.
const POSTS: &[&str] = &[
    "chat/completions",
    "completions",
    "embeddings",
    "responses",
    "responses/input_tokens",
    "messages",
    "messages/count_tokens",
];

#[inferlet::http_handler]
async fn serve(mut request: Request, respond: Responder) -> Result<()> {
    // The part of the path that the API names, wherever it is mounted.
    let path = request.path().trim_end_matches('/').to_string();
    let path = route(&path).to_string();
    let method = request.method().to_string();
    let anthropic = path.starts_with("messages") || request.header("anthropic-version").is_some();
    let error = match (method.as_str(), path.as_str()) {
        ("GET", "models") => match models::list(anthropic) {
            Ok(list) => return reply::send(respond, &list).await,
            Err(error) => error,
        },
        ("GET", path) if path.starts_with("models/") => {
            match models::one(&path["models/".len()..], anthropic) {
                Ok(model) => return reply::send(respond, &model).await,
                Err(error) => error,
            }
        }
        (method, path) if path.starts_with("responses/") && !POSTS.contains(&path) => {
            match responses::stored(method, &path["responses/".len()..], request.query()) {
                Ok(found) => return reply::send(respond, &found).await,
                Err(error) => error,
            }
        }
        ("POST", path) if POSTS.contains(&path) => {
            let parsed = match request.body(MAX_BODY_BYTES).await {
                Ok(body) => parse(&body),
                Err(error) => Err(ApiError::too_large(error)),
            };
            match (parsed, path) {
                (Ok(body), "chat/completions") => return chat::serve(body, respond).await,
                (Ok(body), "completions") => return completions::serve(body, respond).await,
                (Ok(body), "embeddings") => return embeddings::serve(body, respond).await,
                (Ok(body), "responses") => return responses::serve(body, respond).await,
                (Ok(body), "responses/input_tokens") => {
                    return responses::count_tokens(body, respond).await
                }
                (Ok(body), "messages") => return messages::serve(body, respond).await,
                (Ok(body), _) => return messages::count_tokens(body, respond).await,
                (Err(error), _) => error,
            }
        }
        (_, path) if path == "models" || POSTS.contains(&path) => {
            let text = format!("Not allowed to {method} on /v1/{path}");
            ApiError::new(405, "method_not_supported", text)
        }
        _ => {
            let text = format!("Invalid URL ({method} {})", request.path());
            ApiError::new(404, "unknown_url", text)
        }
    };
    match anthropic {
        true => messages::fail(respond, error).await,
        false => reply::fail(respond, error).await,
    }
}

/// Returns the part of a path after `/v1/`. The name of the inferlet before it, or that of a model after it, may
/// contain `/v1/` too.
fn route(path: &str) -> &str {
    let is_mark = |at: &usize| path.as_bytes()[*at..].starts_with(b"/v1/");
    let rests = (0..path.len()).filter(is_mark).map(|at| &path[at + 4..]);
    let is_known = |rest: &&str| {
        let first = rest.split('/').next();
        first == Some("models") || POSTS.iter().any(|post| post.split('/').next() == first)
    };
    rests.into_iter().find(is_known).unwrap_or_default()
}

fn parse(body: &[u8]) -> std::result::Result<Map<String, Value>, ApiError> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(ApiError::invalid("", "the body must be a JSON object")),
        Err(error) => Err(ApiError::invalid(
            "",
            format!("the body is not JSON: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_route_follows_the_version() {
        for (path, rest) in [
            ("/v1/models", "models"),
            ("/apps/my-api/v1/chat/completions", "chat/completions"),
            ("/apps/v1/v1/responses/resp_1", "responses/resp_1"),
            ("/v1/models/org/v1/x", "models/org/v1/x"),
            ("/v1/nowhere", ""),
            ("/", ""),
        ] {
            assert_eq!(route(path), rest, "{path}");
        }
    }
}
