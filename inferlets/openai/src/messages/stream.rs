//! A streamed message: its events.

use super::{fail, head, stop_reason, thinking, tool_use, usage_of};
use crate::api_error::ApiError;
use crate::choices::{generate, length, Delta, Usage};
use crate::options::Options;
use crate::reply::SharedEvents;
use inferlet::http::Responder;
use inferlet::prelude::*;
use serde_json::{json, Value};
use std::cell::RefCell;

/// The state of an event stream: how many blocks have begun, which kind of delta the open one takes, and why the answer
/// ended.
#[derive(Default)]
struct Blocks {
    count: usize,
    open: Option<&'static str>,
    shows_thoughts: bool,
    stop_reason: &'static str,
    stopped_by: Option<String>,
}

impl Blocks {
    fn take(&mut self, delta: Delta) -> Vec<Value> {
        let mut events = Vec::new();
        if !delta.thought.is_empty() && self.shows_thoughts {
            self.open_block("thinking_delta", thinking(""), &mut events);
            let more = json!({ "type": "thinking_delta", "thinking": delta.thought });
            events.push(self.delta(more));
        }
        if !delta.text.is_empty() {
            let block = json!({ "type": "text", "text": "" });
            self.open_block("text_delta", block, &mut events);
            events.push(self.delta(json!({ "type": "text_delta", "text": delta.text })));
        }
        if delta.finish.is_some() && self.open.is_some() {
            events.push(self.stop());
        }
        for (index, call) in delta.calls.iter().enumerate() {
            let mut block = tool_use(index, call);
            block["input"] = json!({});
            events.push(self.start(block));
            let input = json!({ "type": "input_json_delta", "partial_json": call.1 });
            events.push(self.delta(input));
            events.push(self.stop());
        }
        if let Some(finish) = delta.finish {
            self.stop_reason = stop_reason(finish, &delta.stopped_by);
            self.stopped_by = delta.stopped_by;
        }
        events
    }

    /// Opens a block for deltas of this kind, unless it is open. Closes a block of another kind.
    fn open_block(&mut self, kind: &'static str, block: Value, events: &mut Vec<Value>) {
        if self.open == Some(kind) {
            return;
        }
        if self.open.is_some() {
            events.push(self.stop());
        }
        self.open = Some(kind);
        events.push(self.start(block));
    }

    fn start(&self, block: Value) -> Value {
        json!({ "type": "content_block_start", "index": self.count, "content_block": block })
    }
    fn delta(&self, delta: Value) -> Value {
        json!({ "type": "content_block_delta", "index": self.count, "delta": delta })
    }
    fn stop(&mut self) -> Value {
        let event = json!({ "type": "content_block_stop", "index": self.count });
        self.count += 1;
        self.open = None;
        event
    }
}

pub(super) async fn serve(
    options: Options,
    prompt: Context,
    shows_thoughts: bool,
    respond: Responder,
) -> Result<()> {
    // The number of cached tokens is known when the answer begins. The last event states the counts again.
    let usage = usage_of(&Usage {
        prompt: length(&prompt),
        ..Usage::default()
    });
    let start = json!({ "type": "message_start", "message": head(&options, usage) });
    let events = &SharedEvents::with_pings(respond, vec![start]);
    let blocks = RefCell::new(Blocks {
        shows_thoughts,
        ..Blocks::default()
    });
    let take = |delta: Delta| {
        let chunks = blocks.borrow_mut().take(delta);
        async move { events.send_all(&chunks).await }
    };
    let generated = generate(&options, vec![prompt], take).await;
    let blocks = blocks.into_inner();
    let last = match generated.map_err(ApiError::engine) {
        Ok(usage) => vec![
            json!({
                "type": "message_delta",
                "delta": { "stop_reason": blocks.stop_reason, "stop_sequence": blocks.stopped_by },
                "usage": usage_of(&usage),
            }),
            json!({ "type": "message_stop" }),
        ],
        Err(error) => match events.unused() {
            Some(respond) => return fail(respond, error).await,
            None => vec![error.in_messages_form()],
        },
    };
    events.finish(&last).await
}
