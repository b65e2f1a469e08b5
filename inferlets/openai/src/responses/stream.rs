//! A streamed response: its events, which are numbered.

use super::{
    logprobs, message, message_id, output, part, reasoning, reasoning_id, status_of, Shown,
};
use crate::api_error::ApiError;
use crate::choices::{generate, Choice, Delta};
use crate::options::Options;
use crate::reply::{self, SharedEvents};
use inferlet::http::Responder;
use inferlet::prelude::*;
use serde_json::{json, Value};
use std::cell::RefCell;

/// The events of a stream, which are numbered.
struct Items<'a> {
    options: &'a Options,
    number: u64,
    choice: Choice,
    in_thought: bool,
    in_text: bool,
    /// Log-probabilities of tokens whose text was held back.
    unsent: Vec<Value>,
}

impl Items<'_> {
    fn event(&mut self, kind: &str, mut fields: Value) -> Value {
        fields["type"] = format!("response.{kind}").into();
        fields["sequence_number"] = self.number.into();
        self.number += 1;
        fields
    }

    fn take(&mut self, delta: Delta) -> Vec<Value> {
        let mut events = Vec::new();
        if !delta.thought.is_empty() {
            self.think(&delta.thought, &mut events);
        }
        let ends = delta.finish.is_some();
        if self.in_thought && (ends || !delta.text.is_empty()) {
            self.end_thought(&delta.thought, &mut events);
        }
        let has_thought = !self.choice.thought.is_empty() || !delta.thought.is_empty();
        let index = usize::from(has_thought);
        let at = json!({ "item_id": message_id(), "output_index": index, "content_index": 0 });
        let place = |more: Value| joined(&at, more);
        let ends_empty = ends && delta.calls.is_empty();
        if !self.in_text && (!delta.text.is_empty() || ends_empty) {
            self.in_text = true;
            let item = message(Vec::new(), "in_progress");
            let added = json!({ "output_index": index, "item": item });
            events.push(self.event("output_item.added", added));
            let added = place(json!({ "part": part("", json!([])) }));
            events.push(self.event("content_part.added", added));
        }
        if let Value::Array(scores) = logprobs(self.options, &delta.tokens) {
            self.unsent.extend(scores);
        }
        if !delta.text.is_empty() {
            let scores = std::mem::take(&mut self.unsent);
            let said = place(json!({ "delta": delta.text, "logprobs": scores }));
            events.push(self.event("output_text.delta", said));
        }
        self.choice.take(delta);
        if !ends {
            return events;
        }
        if self.in_text {
            let text = self.choice.text.clone();
            let scores = logprobs(self.options, &self.choice.tokens);
            let done = place(json!({ "text": text, "logprobs": scores }));
            events.push(self.event("output_text.done", done));
            let done = place(json!({ "part": part(&text, scores) }));
            events.push(self.event("content_part.done", done));
        }
        let items = output(self.options, &self.choice);
        for (index, item) in items.into_iter().enumerate() {
            if item["type"] == "reasoning" {
                continue; // it has ended already
            }
            if item["type"] == "function_call" {
                self.call(index, &item, &mut events);
            }
            let done = json!({ "output_index": index, "item": item });
            events.push(self.event("output_item.done", done));
        }
        events
    }

    fn think(&mut self, text: &str, events: &mut Vec<Value>) {
        if !self.in_thought {
            self.in_thought = true;
            let item = reasoning("", "in_progress");
            let added = json!({ "output_index": 0, "item": item });
            events.push(self.event("output_item.added", added));
        }
        let said = json!({
            "item_id": reasoning_id(), "output_index": 0, "content_index": 0, "delta": text,
        });
        events.push(self.event("reasoning_text.delta", said));
    }

    /// Ends the thoughts. `last` is the part of them that was not counted yet.
    fn end_thought(&mut self, last: &str, events: &mut Vec<Value>) {
        self.in_thought = false;
        let text = format!("{}{last}", self.choice.thought);
        let done = json!({
            "item_id": reasoning_id(), "output_index": 0, "content_index": 0, "text": text,
        });
        events.push(self.event("reasoning_text.done", done));
        let done = json!({ "output_index": 0, "item": reasoning(&text, "completed") });
        events.push(self.event("output_item.done", done));
    }

    fn call(&mut self, index: usize, item: &Value, events: &mut Vec<Value>) {
        let arguments = item["arguments"].clone();
        let mut begun = item.clone();
        begun["arguments"] = "".into();
        begun["status"] = "in_progress".into();
        let added = json!({ "output_index": index, "item": begun });
        events.push(self.event("output_item.added", added));
        let at = json!({ "item_id": item["id"], "output_index": index, "delta": arguments });
        events.push(self.event("function_call_arguments.delta", at));
        let done = json!({
            "item_id": item["id"], "output_index": index, "name": item["name"],
            "arguments": arguments,
        });
        events.push(self.event("function_call_arguments.done", done));
    }
}

/// The fields of both objects.
fn joined(one: &Value, other: Value) -> Value {
    let mut fields = one.clone();
    for (name, value) in other.as_object().into_iter().flatten() {
        fields[name] = value.clone();
    }
    fields
}

pub(super) async fn serve(
    options: Options,
    prompt: Context,
    shown: Shown,
    respond: Responder,
) -> Result<()> {
    let mut items = Items {
        options: &options,
        number: 0,
        choice: Choice::default(),
        in_thought: false,
        in_text: false,
        unsent: Vec::new(),
    };
    let first = ["created", "in_progress"];
    let first = first.map(|kind| items.event(kind, json!({ "response": shown.response })));
    let events = &SharedEvents::named(respond, first.to_vec());
    let items = RefCell::new(items);
    let take = |delta: Delta| {
        let chunks = items.borrow_mut().take(delta);
        async move { events.send_all(&chunks).await }
    };
    let generated = generate(&options, vec![prompt], take).await;
    let mut items = items.into_inner();
    let last = match generated.map_err(ApiError::engine) {
        Ok(usage) => {
            let finish = items.choice.finish;
            let response = shown.finished(output(&options, &items.choice), finish, &usage);
            items.event(status_of(finish), json!({ "response": response }))
        }
        Err(error) => {
            if let Some(respond) = events.unused() {
                return reply::fail(respond, error).await;
            }
            let mut response = shown.response.clone();
            response["status"] = "failed".into();
            let text = error.json()["error"]["message"].take();
            response["error"] = json!({ "code": "server_error", "message": text });
            items.event("failed", json!({ "response": response }))
        }
    };
    events.finish(&[last]).await
}
