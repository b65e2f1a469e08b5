//! Responses: one JSON document, or a stream of events.

use crate::api_error::ApiError;
use inferlet::http::{Body, Responder};
use inferlet::prelude::*;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A stream that has sent nothing for this long sends a ping: proxies and clients close connections that are silent.
pub const SILENCE: Duration = Duration::from_secs(15);
/// A comment, which readers of event streams skip.
const COMMENT: &str = ": ping\n\n";
/// The event that the Anthropic API sends.
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

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
    ping: &'static str,
    /// When something was sent last, or the request began.
    sent: Cell<Instant>,
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
            ping: COMMENT,
            sent: Cell::new(Instant::now()),
        }
    }

    /// Events that have the name of their type, as of the newer APIs.
    pub fn named(respond: Responder, first: Vec<Value>) -> Self {
        SharedEvents {
            named: true,
            ..SharedEvents::new(respond, first)
        }
    }

    /// Named events whose pings are events too, as of the Anthropic API.
    pub fn with_pings(respond: Responder, first: Vec<Value>) -> Self {
        SharedEvents {
            ping: PING,
            ..SharedEvents::named(respond, first)
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

    /// Sends the events. If there are none, sends a ping where the stream has been silent for long.
    pub async fn send_all(&self, chunks: &[Value]) -> Result<()> {
        if chunks.is_empty() && self.sent.get().elapsed() < SILENCE {
            return Ok(());
        }
        let mut stream = self.take().await?;
        for chunk in chunks {
            stream.send(chunk).await?;
        }
        if chunks.is_empty() {
            stream.body.write(self.ping).await?;
        }
        self.sent.set(Instant::now());
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
