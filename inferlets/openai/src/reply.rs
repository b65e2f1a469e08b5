//! Responses: one JSON document, or a stream of events.

use crate::api_error::ApiError;
use inferlet::http::{Body, Responder};
use inferlet::prelude::*;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

pub async fn send(respond: Responder, body: &Value) -> Result<()> {
    respond.header("content-type", "application/json").send(body.to_string()).await
}

pub async fn fail(respond: Responder, error: ApiError) -> Result<()> {
    send(respond.status(error.status), &error.json()).await
}

/// A stream of server-sent events.
pub struct Events(Body);

impl Events {
    pub fn start(respond: Responder) -> Result<Events> {
        let respond = respond
            .header("content-type", "text/event-stream; charset=utf-8")
            .header("cache-control", "no-cache");
        Ok(Events(respond.start()?))
    }

    pub async fn send(&mut self, event: &Value) -> Result<()> {
        self.0.write(format!("data: {event}\n\n")).await
    }

    pub async fn finish(mut self) -> Result<()> {
        self.0.write("data: [DONE]\n\n").await?;
        self.0.finish()
    }
}

/// Seconds since 1970, as the API dates its answers.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}
