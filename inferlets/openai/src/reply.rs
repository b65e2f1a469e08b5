//! Responses: one JSON document, or a stream of events.

use crate::api_error::ApiError;
use inferlet::http::{Body, Responder};
use inferlet::prelude::*;
use serde_json::Value;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

pub async fn send(respond: Responder, body: &Value) -> Result<()> {
    respond
        .header("content-type", "application/json")
        .send(body.to_string())
        .await
}

pub async fn fail(respond: Responder, error: ApiError) -> Result<()> {
    send(respond.status(error.status), &error.json()).await
}

/// A stream of server-sent events.
pub struct Events {
    body: Body,
    named: bool,
}

impl Events {
    /// Events without names, as of completions: the last one is `[DONE]`.
    pub fn start(respond: Responder) -> Result<Events> {
        Events::begin(respond, false)
    }

    /// Events that have the name of their type, as of the newer APIs.
    pub fn start_named(respond: Responder) -> Result<Events> {
        Events::begin(respond, true)
    }

    fn begin(respond: Responder, named: bool) -> Result<Events> {
        let respond = respond
            .header("content-type", "text/event-stream; charset=utf-8")
            .header("cache-control", "no-cache");
        let body = respond.start()?;
        Ok(Events { body, named })
    }

    pub async fn send(&mut self, event: &Value) -> Result<()> {
        let name = match event["type"].as_str() {
            Some(name) if self.named => format!("event: {name}\n"),
            _ => String::new(),
        };
        self.body.write(format!("{name}data: {event}\n\n")).await
    }

    pub async fn finish(mut self) -> Result<()> {
        if !self.named {
            self.body.write("data: [DONE]\n\n").await?;
        }
        self.body.finish()
    }
}

/// A stream that the deliveries of several choices write to, one at a time.
pub struct SharedEvents(RefCell<Option<Events>>);

impl SharedEvents {
    pub fn new(events: Events) -> Self {
        SharedEvents(RefCell::new(Some(events)))
    }

    /// Each delivery takes the stream and puts it back. If a delivery fails, the client has left.
    pub async fn send_all(&self, chunks: &[Value]) -> Result<()> {
        let mut stream = self.0.borrow_mut().take().ok_or("the stream has ended")?;
        for chunk in chunks {
            stream.send(chunk).await?;
        }
        *self.0.borrow_mut() = Some(stream);
        Ok(())
    }

    /// Ends the stream with these chunks.
    pub async fn finish(&self, last: &[Value]) -> Result<()> {
        let Some(mut stream) = self.0.borrow_mut().take() else {
            return Err("the client has left".into());
        };
        for chunk in last {
            stream.send(chunk).await?;
        }
        stream.finish().await
    }
}

/// Seconds since 1970, as the API dates its answers.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |passed| passed.as_secs())
}
