//! An answer of the model: its text, its thoughts and its tool calls, until it calls no more tools.

use crate::calls::{readable, HeldCalls, Visible};
use crate::{listen, Input, Talk};
use inferlet::chat::{Decoder, Event};
use inferlet::futures::future::{select, Either, LocalBoxFuture};
use inferlet::futures::FutureExt;
use inferlet::prelude::*;
use inferlet::{reasoning, session, tools};
use serde_json::json;
use std::time::Instant;

/// The result of a call that the client has stopped.
const STOPPED: &str = "error: the user stopped this call";

pub type Inbox = LocalBoxFuture<'static, Option<String>>;

/// How often the model may call tools before it has to answer.
const MAX_ROUNDS: usize = 8;

/// Answers the last turn of the conversation. A message that arrives meanwhile ends the answer; a client sends nothing but
/// `stop` during an answer.
pub async fn answer(talk: &mut Talk, input: &Input, mut inbox: Inbox) -> Result<Inbox> {
    let began = Instant::now();
    let mut tokens = 0;
    let mut stopped = false;
    for round in 0..=MAX_ROUNDS {
        let said;
        (said, inbox) = generate(talk, input, inbox).await?;
        tokens += said.tokens;
        stopped = said.stopped;
        talk.context.seal();
        if stopped || said.calls.is_empty() || round == MAX_ROUNDS {
            break;
        }
        for (name, arguments) in said.calls {
            let tools = talk.tools.clone();
            let mut result = STOPPED.to_string();
            if !stopped {
                session::send(&json!({ "call": readable(&name, &arguments) }).to_string());
                let call = tools.call(&name, &arguments).boxed_local();
                match select(call, inbox).await {
                    Either::Left((answer, waiting)) => (result, inbox) = (answer, waiting),
                    Either::Right(_) => (stopped, inbox) = (true, listen()),
                }
            }
            talk.context.answer_tool(&name, &result);
        }
        if stopped {
            break;
        }
        talk.context.cue();
    }
    let done =
        json!({ "tokens": tokens, "seconds": began.elapsed().as_secs_f64(), "stopped": stopped });
    session::send(&json!({ "done": done }).to_string());
    Ok(inbox)
}

/// The result of one generation.
struct Said {
    tokens: usize,
    calls: Vec<(String, String)>,
    stopped: bool,
}

async fn generate(talk: &mut Talk, input: &Input, mut inbox: Inbox) -> Result<(Said, Inbox)> {
    let mut speech = Speech::new(talk);
    let held = match talk.tools.is_empty() {
        true => None,
        false => HeldCalls::new(&talk.model, &talk.tools.schemas(), talk.tools.names()),
    };
    let sampler = Sampler::top_p(input.temperature.unwrap_or(0.7), 0.95);
    let limit = input.max_tokens.unwrap_or(2048);
    let mut generator = talk.context.generate(sampler).max_tokens(limit);
    if let Some(held) = held {
        generator = generator.constrain(held);
    }
    let mut stopped = false;
    while let Some(step) = generator.next()? {
        let step = step.execute().boxed_local();
        let output = match select(step, inbox).await {
            Either::Left((output, waiting)) => {
                inbox = waiting;
                output?
            }
            Either::Right((_, step)) => {
                inbox = listen();
                stopped = true;
                step.await?
            }
        };
        for token in &output.tokens {
            speech.take(*token)?;
        }
        if stopped {
            break;
        }
    }
    speech.end();
    let said = Said {
        tokens: generator.tokens_generated(),
        calls: speech.calls,
        stopped,
    };
    Ok((said, inbox))
}

/// The longest text that may be the mark of thoughts.
const MARK_BYTES: usize = 32;

/// Sends the text of the tokens to the client, and marks the thoughts.
struct Speech {
    text: Decoder,
    thoughts: reasoning::Decoder,
    thinking: bool,
    /// The bytes of the present thoughts that the client has.
    sent: usize,
    /// The beginning of the answer, as long as it may be the mark of thoughts. None: it is not.
    held: Option<String>,
    call_decoder: Option<tools::Decoder>,
    /// Holds back the text of calls.
    visible: Visible,
    calls: Vec<(String, String)>,
}

impl Speech {
    fn new(talk: &Talk) -> Speech {
        Speech {
            text: Decoder::new(&talk.model),
            thoughts: reasoning::Decoder::new(&talk.model),
            thinking: false,
            sent: 0,
            held: Some(String::new()),
            call_decoder: (!talk.tools.is_empty()).then(|| tools::Decoder::new(&talk.model)),
            visible: Visible::default(),
            calls: Vec::new(),
        }
    }

    fn take(&mut self, token: u32) -> Result<()> {
        if let Some(decoder) = &mut self.call_decoder {
            let mut event = decoder.feed(&[token])?;
            while let tools::Event::Call(name, arguments) = event {
                self.calls.push((name, arguments));
                event = decoder.feed(&[])?;
            }
        }
        let thought = self.thoughts.feed(&[token])?;
        let mut event = self.text.feed(&[token])?;
        if let Event::Interrupt(_) = event {
            event = self.text.feed(&[])?; // the text around the control token
        }
        // The text decoder also returns the thoughts and the marks around them.
        match thought {
            reasoning::Event::Start => {
                (self.thinking, self.sent, self.held) = (true, 0, None);
            }
            reasoning::Event::Delta(text) => {
                self.sent += text.len();
                tell("thought", &text);
            }
            reasoning::Event::End(all) => {
                tell("thought", all.get(self.sent..).unwrap_or_default());
                (self.thinking, self.held) = (false, None);
            }
            reasoning::Event::Idle if self.thinking => {}
            reasoning::Event::Idle => {
                if let Event::Delta(text) = event {
                    self.show(&text);
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, text: &str) {
        let Some(held) = &mut self.held else {
            return self.say(text);
        };
        held.push_str(text);
        let begun = held.trim_start();
        let may_be_mark = begun.starts_with(['<', '[']) && begun.len() <= MARK_BYTES;
        if !begun.is_empty() && !may_be_mark {
            self.release();
        }
    }

    /// Sends what turned out to be no thought.
    fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.say(&held);
        }
    }

    /// Sends text of the answer. The client sees a call as a line of its own, and not as the model writes it.
    fn say(&mut self, text: &str) {
        let Some(decoder) = &self.call_decoder else {
            return tell("delta", text);
        };
        let called = !self.calls.is_empty();
        tell(
            "delta",
            &self.visible.push(text, decoder.is_assembling(), called),
        );
    }

    /// Sends what was held back. Called at the end of the answer.
    fn end(&mut self) {
        self.release();
        tell("delta", &self.visible.rest());
    }
}

fn tell(what: &str, text: &str) {
    if !text.is_empty() {
        session::send(&json!({ what: text }).to_string());
    }
}
