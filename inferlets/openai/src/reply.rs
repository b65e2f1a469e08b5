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

/// A stream that the deliveries of several choices write to, one at a time.
pub struct SharedEvents(RefCell<Option<Events>>);

impl SharedEvents {
    pub fn new(events: Events) -> Self {
        SharedEvents(RefCell::new(Some(events)))
    }

    /// A delivery takes the stream and puts it back. If it fails, the client has left.
    pub async fn send_all(&self, chunks: &[Value]) -> Result<()> {
        let mut stream = self.0.borrow_mut().take().ok_or("the stream has ended")?;
        for chunk in chunks {
            stream.send(chunk).await?;
        }
        *self.0.borrow_mut() = Some(stream);
        Ok(())
    }

    /// Ends the stream with a last chunk, if there is one, or with what went wrong.
    pub async fn finish(&self, last: Result<Option<Value>>) -> Result<()> {
        let Some(mut stream) = self.0.borrow_mut().take() else {
            return Err("the client has left".into());
        };
        match last {
            Ok(Some(chunk)) => stream.send(&chunk).await?,
            Ok(None) => {}
            Err(error) => stream.send(&ApiError::engine(error).json()).await?,
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
