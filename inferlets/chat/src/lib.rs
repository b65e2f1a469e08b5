//! A conversation. The context stays between turns, so no prompt is computed, or even sent, twice.
//!
//! Its client sends JSON, one message at a time:
//!
//! | message | what it does | answer |
//! |---|---|---|
//! | `{"say": "…"}` | a turn | `{"thought": "…"}`, `{"delta": "…"}` and `{"call": "…"}` as they come, then `{"done": {"tokens": …, "seconds": …}}` |
//! | `{"stop": true}` | ends the running answer | |
//! | `{"system": "…"}` | begins a new conversation | `{"note": "…"}` |
//! | `{"model": "…"}` | begins a conversation on another model; an empty name lists the models | `{"note": "…"}` |
//! | `{"think": "…"}` | from the next turn on, the model thinks (`on`, `low`, `medium`, `high`) or does not (`off`) | `{"note": "…"}` |
//! | `{"save": "…"}`, `{"open": "…"}` | keeps the conversation under a name; goes on with a kept one | `{"note": "…"}` |
//! | `{"tools": null}` | lists the MCP servers and their tools | `{"note": "…"}` |
//! | `{"tools": ["…"]}` | begins a conversation in which the model may call the tools of these servers | `{"note": "…"}` |
//!
//! If a message cannot be carried out, the answer is a note that says why, and nothing changes. A turn that fails ends
//! its answer with such a note.

mod answer;
mod calls;
mod thinking;
mod tools;

use answer::Inbox;
use inferlet::futures::FutureExt;
use inferlet::prelude::*;
use inferlet::session;
use serde::Deserialize;
use serde_json::{json, Value};
use std::rc::Rc;
use tools::Toolbox;

#[derive(Deserialize)]
struct Input {
    model: Option<String>,
    system: Option<String>,
    temperature: Option<f32>,
    max_tokens: Option<usize>,
    /// Set by the conversation, which launches this program for each tool call: the program only makes the call.
    call: Option<tools::Call>,
}

fn listen() -> Inbox {
    async { session::receive().wait_async().await }.boxed_local()
}

/// The conversation as it stands.
struct Talk {
    model: Model,
    name: String,
    system: String,
    tools: Rc<Toolbox>,
    /// The last argument of `think`.
    thinking: Option<String>,
    context: Context,
}

impl Talk {
    fn begin(name: &str, system: &str, tools: Rc<Toolbox>) -> Result<Talk> {
        let model = Model::load(name)?;
        let mut context = Context::new(&model)?;
        if !tools.is_empty() {
            context.equip_tools(&tools.schemas())?;
        }
        if !system.is_empty() {
            context.system(system);
        }
        Ok(Talk {
            model,
            name: name.into(),
            system: system.into(),
            tools,
            thinking: None,
            context,
        })
    }

    /// A new conversation takes the place of this one, and thinks as this one did, where its model can.
    fn restart(&mut self, name: &str, system: &str, tools: Rc<Toolbox>) -> Result<()> {
        let thinking = self.thinking.take();
        *self = Talk::begin(name, system, tools)?;
        if let Some(how) = thinking {
            let set = thinking::set(&self.model, name, &how);
            self.thinking = set.is_ok().then_some(how);
        }
        Ok(())
    }

    /// Does what a message other than a turn asks for. Returns what to tell the client.
    fn obey(&mut self, message: &Value) -> Result<String> {
        if let Some(system) = message["system"].as_str() {
            let name = self.name.clone();
            self.restart(&name, system, self.tools.clone())?;
            Ok("a new conversation".into())
        } else if let Some(name) = message["model"].as_str() {
            if name.is_empty() {
                return Ok(format!(
                    "models: {}; this is {}",
                    runtime::models().join(", "),
                    self.name
                ));
            }
            let system = self.system.clone();
            self.restart(name, &system, self.tools.clone())?;
            Ok(format!("a new conversation with {name}"))
        } else if let Some(how) = message["think"].as_str() {
            let note = thinking::set(&self.model, &self.name, how)?;
            self.thinking = Some(how.into());
            Ok(note)
        } else if let Some(name) = message["save"].as_str() {
            self.context.save(name)?;
            Ok(format!("saved as {name}"))
        } else if let Some(name) = message["open"].as_str() {
            self.context = Context::open(&self.model, name)?;
            Ok(format!("{name} goes on: {} tokens", self.context.seq_len()))
        } else if let Some(servers) = message["tools"].as_array() {
            let servers: Vec<&str> = servers.iter().filter_map(Value::as_str).collect();
            let tools = Rc::new(Toolbox::of(&servers)?);
            let note = format!("a new conversation with {} tools", tools.len());
            let (name, system) = (self.name.clone(), self.system.clone());
            self.restart(&name, &system, tools)?;
            Ok(note)
        } else if message.get("tools").is_some() {
            Ok(tools::list())
        } else {
            Err(
                "unknown message: pie chat accepts system, model, think, save, open and tools"
                    .into(),
            )
        }
    }
}

#[inferlet::main]
async fn main(input: Input) -> Result<String> {
    if let Some(call) = &input.call {
        return Ok(call.make());
    }
    let name = match &input.model {
        Some(name) => name.clone(),
        None => runtime::models()
            .first()
            .cloned()
            .ok_or("the engine has no model")?,
    };
    let system = input.system.as_deref().unwrap_or_default();
    let mut talk = Talk::begin(&name, system, Rc::default())?;
    let mut inbox = listen();
    while let Some(message) = inbox.await {
        inbox = listen();
        let message: Value = serde_json::from_str(&message).unwrap_or_default();
        if let Some(text) = message["say"].as_str() {
            talk.context.user(text).cue();
            inbox = match answer::answer(&mut talk, &input, inbox).await {
                Ok(inbox) => inbox,
                // For example, the conversation is as long as the model takes. Another one can begin.
                Err(error) => {
                    session::send(&json!({ "note": format!("error: {error}") }).to_string());
                    listen()
                }
            };
        } else if message["stop"].is_null() {
            let note = talk.obey(&message).unwrap_or_else(|error| error);
            session::send(&json!({ "note": note }).to_string());
        }
    }
    Ok(String::new()) // the client has left
}
