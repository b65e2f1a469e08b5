//! Responses: one JSON document, or a stream of events.

use crate::api_error::ApiError;
use inferlet::http::{Body, Responder};
use inferlet::prelude::*;
use serde_json::Value;
use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

pub async fn send(respond: Responder, body: &Value) -> Result<()> {
    identified(respond)
        .header("content-type", "application/json")
        .send(body.to_string())
        .await
}

/// Adds the id of the request, under the names that clients of the two APIs look for.
fn identified(respond: Responder) -> Responder {
    let id = format!("req_{}", inferlet::runtime::instance_id());
    respond
        .header("x-request-id", &id)
        .header("request-id", &id)
}

pub async fn fail(respond: Responder, error: ApiError) -> Result<()> {
    send(respond.status(error.status), &error.json()).await
}

/// A stream of server-sent events.
struct Events {
    body: Body,
    named: bool,
}

impl Events {
    fn begin(respond: Responder, named: bool) -> Result<Events> {
        let respond = identified(respond)
            .header("content-type", "text/event-stream; charset=utf-8")
            .header("cache-control", "no-cache");
        let body = respond.start()?;
        Ok(Events { body, named })
    }

    async fn send(&mut self, event: &Value) -> Result<()> {
        let name = match event["type"].as_str() {
            Some(name) if self.named => format!("event: {name}\n"),
            _ => String::new(),
        };
        self.body.write(format!("{name}data: {event}\n\n")).await
    }

    async fn finish(mut self) -> Result<()> {
        if !self.named {
            self.body.write("data: [DONE]\n\n").await?;
        }
        self.body.finish()
    }
}

/// A stream that the deliveries of several choices write to, one at a time. Its head is sent with the first delivery: a
/// request that fails before gets an answer with a status of its own.
pub struct SharedEvents {
    state: RefCell<State>,
    named: bool,
}

enum State {
    /// Nothing is sent yet. The stream will begin with these events.
    Waiting(Responder, Vec<Value>),
    Open(Events),
    /// A delivery has the stream. If it does not put the stream back, the client has left.
    Taken,
}

impl SharedEvents {
    /// Events without names, as of completions: the last one is `[DONE]`.
    pub fn new(respond: Responder, first: Vec<Value>) -> Self {
        let state = RefCell::new(State::Waiting(respond, first));
        SharedEvents {
            state,
            named: false,
        }
    }

    /// Events that have the name of their type, as of the newer APIs.
    pub fn named(respond: Responder, first: Vec<Value>) -> Self {
        SharedEvents {
            named: true,
            ..SharedEvents::new(respond, first)
        }
    }

    async fn take(&self) -> Result<Events> {
        match self.state.replace(State::Taken) {
            State::Open(events) => Ok(events),
            State::Waiting(respond, first) => {
                let mut events = Events::begin(respond, self.named)?;
                for event in &first {
                    events.send(event).await?;
                }
                Ok(events)
            }
            State::Taken => Err("the client has left".into()),
        }
    }

    pub async fn send_all(&self, chunks: &[Value]) -> Result<()> {
        if chunks.is_empty() {
            return Ok(());
        }
        let mut stream = self.take().await?;
        for chunk in chunks {
            stream.send(chunk).await?;
        }
        *self.state.borrow_mut() = State::Open(stream);
        Ok(())
    }

    /// The place for a response, if nothing was sent there yet.
    pub fn unused(&self) -> Option<Responder> {
        match self.state.replace(State::Taken) {
            State::Waiting(respond, _) => Some(respond),
            other => {
                *self.state.borrow_mut() = other;
                None
            }
        }
    }

    /// Ends the stream with these chunks.
    pub async fn finish(&self, last: &[Value]) -> Result<()> {
        let mut stream = self.take().await?;
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
