//! Generation: the choices of a request, side by side, each in a fork of the prompt's context.

use crate::draw::Draw;
use crate::options::{vocabulary_size, Options};
use crate::stops::Stops;
use crate::tools::{Call, Calls};
use crate::visible::Visible;
use inferlet::chat::{Decoder, Event};
use inferlet::futures::channel::mpsc;
use inferlet::futures::future::join_all;
use inferlet::futures::StreamExt;
use inferlet::prelude::*;
use inferlet::sample::{Distribution, Logits};
use serde_json::{json, Value};
use std::cell::RefCell;

/// Some more text of a choice.
#[derive(Default)]
pub struct Delta {
    pub choice: usize,
    pub text: String,
    pub tokens: Vec<Scored>,
    pub calls: Vec<Call>,
    /// Set by the last one: why the choice ended.
    pub finish: Option<&'static str>,
    /// The stop text that ended it.
    pub stopped_by: Option<String>,
}

/// A whole choice.
#[derive(Default)]
pub struct Choice {
    pub text: String,
    pub tokens: Vec<Scored>,
    pub calls: Vec<Call>,
    pub finish: &'static str,
    pub stopped_by: Option<String>,
}

impl Choice {
    pub fn take(&mut self, delta: Delta) {
        self.text.push_str(&delta.text);
        self.tokens.extend(delta.tokens);
        self.calls.extend(delta.calls);
        self.finish = delta.finish.unwrap_or(self.finish);
        self.stopped_by = delta.stopped_by.or(self.stopped_by.take());
    }
}

/// Generates all choices, and waits for their ends.
pub async fn collect(options: &Options, prompt: Context) -> Result<(Vec<Choice>, Usage)> {
    let choices = (0..options.choices).map(|_| Choice::default());
    let choices: RefCell<Vec<Choice>> = RefCell::new(choices.collect());
    let take = |delta: Delta| {
        choices.borrow_mut()[delta.choice].take(delta);
        std::future::ready(Ok(()))
    };
    let usage = generate(options, prompt, take).await?;
    Ok((choices.into_inner(), usage))
}

/// A token with its log-probability and its likeliest alternatives.
pub struct Scored {
    pub token: u32,
    pub logprob: f32,
    pub top: Vec<(u32, f32)>,
}

pub struct Usage {
    pub prompt: usize,
    pub completion: usize,
}

impl Usage {
    pub fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        })
    }
}

/// Generates all choices. `take` gets the text of each choice as it is generated. If `take` fails, the client has left.
pub async fn generate<F>(
    options: &Options,
    mut prompt: Context,
    take: impl FnMut(Delta) -> F,
) -> Result<Usage>
where
    F: std::future::Future<Output = Result<()>>,
{
    let mut take = take;
    let tokens = prompt.seq_len() as usize + prompt.buffer().len();
    let mut contexts = Vec::new();
    if options.adapter.is_some() {
        // The adapter applies to passes of a generation only, so the prompt is computed there. The engine shares equal
        // beginnings.
        for _ in 1..options.choices {
            let mut context = Context::new(&options.model)?;
            context.append(prompt.buffer());
            contexts.push(context);
        }
        contexts.push(prompt);
    } else if options.choices > 1 {
        // All tokens of the prompt but the last are computed once, for all choices.
        let last = prompt.buffer().last().copied();
        if let Some(last) = last {
            let all = prompt.buffer().to_vec();
            prompt = prefilled(prompt, &all[..all.len() - 1]).await?;
            for _ in 0..options.choices {
                let mut fork = prompt.fork()?;
                fork.append(&[last]);
                contexts.push(fork);
            }
        }
    } else {
        contexts.push(prompt);
    }
    let (tell, mut told) = mpsc::unbounded();
    let runs = contexts.into_iter().enumerate().map(|(choice, context)| {
        let tell = tell.clone();
        async move { run(options, choice, context, tell).await }
    });
    let runs = join_all(runs);
    drop(tell);
    let deliver = async {
        while let Some(delta) = told.next().await {
            take(delta).await?;
        }
        Ok::<(), String>(())
    };
    let (counts, delivered) = inferlet::futures::join!(runs, deliver);
    delivered?;
    let mut completion = 0;
    for count in counts {
        completion += count?;
    }
    Ok(Usage {
        prompt: tokens,
        completion,
    })
}

/// Returns a context of the same model in which these tokens are computed.
async fn prefilled(prompt: Context, tokens: &[u32]) -> Result<Context> {
    let mut context = Context::new(prompt.model())?;
    context.append(tokens);
    if !tokens.is_empty() {
        context.flush().await?;
    }
    Ok(context)
}

/// Generates one choice. Returns the number of its tokens.
async fn run(
    options: &Options,
    choice: usize,
    mut context: Context,
    tell: mpsc::UnboundedSender<Delta>,
) -> Result<usize> {
    let model = options.model.clone();
    let say = |delta: Delta| drop(tell.unbounded_send(Delta { choice, ..delta }));
    let mut calls = options.tools.then(|| Calls::new(&model));
    let mut visible = Visible::default();
    let mut decoder = Decoder::new(&model);
    let mut stops = Stops::new(&options.stops);
    let mut generator = context
        .generate(options.sampler())
        .max_tokens(options.max_tokens);
    // The seeds are far apart, so that no two choices draw the same numbers.
    let seed = options
        .seed
        .map(|seed| seed.wrapping_add((choice as u64) << 32));
    if let Some(seed) = seed {
        generator = generator.seed(seed);
    }
    let mut draw = (!options.bias.is_none()).then(|| Draw::new(options, seed));
    if let (Some(mask), None) = (mask(options), &draw) {
        generator = generator.logit_mask(&mask);
    }
    if let Some(adapter) = &options.adapter {
        generator = generator.adapter(adapter);
    }
    generator = options.form.constrain(generator, &model)?;
    // A distribution is of the model itself: at temperature 1, before any cut.
    let whole = Distribution {
        temperature: 1.0,
        k: 0,
    };
    let probe = options
        .logprobs
        .map(|_| generator.probe_each_step(0, whole));
    let mut stopped_by = None;
    while let Some(mut step) = generator.next()? {
        let logits = draw.is_some().then(|| {
            step.clear_sampler();
            step.probe(0, Logits)
        });
        let mut output = step.execute().await?;
        if let (Some(draw), Some(logits)) = (&mut draw, logits) {
            let packed = output.logits(logits).ok_or("the engine gave no logits")?;
            let token = draw.next(packed);
            output.tokens = generator.accept(&[token]);
        }
        let scored = match (probe, options.logprobs) {
            (Some(probe), Some(top)) => output
                .distribution(probe)
                .map(|(ids, probabilities)| {
                    output
                        .tokens
                        .iter()
                        .map(|token| score(*token, ids, probabilities, top))
                        .collect()
                })
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        if let Some(calls) = &mut calls {
            calls.feed(&output.tokens)?;
        }
        let mut event = decoder.feed(&output.tokens)?;
        if let Event::Interrupt(_) = event {
            event = decoder.feed(&[])?; // the text around the control token
        }
        let (mut text, stop) = match event {
            Event::Delta(text) => stops.push(&text),
            Event::Done(_) => break,
            Event::Idle | Event::Interrupt(_) => (String::new(), None),
        };
        if let Some(calls) = &calls {
            text = visible.push(&text, calls.is_assembling(), !calls.found.is_empty());
        }
        if !text.is_empty() || !scored.is_empty() {
            say(Delta {
                text,
                tokens: scored,
                ..Delta::default()
            });
        }
        if stop.is_some() {
            stopped_by = stop;
            break;
        }
    }
    let generated = generator.tokens_generated();
    let found = calls
        .as_mut()
        .map_or_else(Vec::new, |calls| std::mem::take(&mut calls.found));
    let mut text = String::new();
    if found.is_empty() {
        text = match calls.is_some() {
            true => visible.push(&stops.rest(), false, false) + &visible.rest(),
            false => stops.rest(),
        };
    }
    let finish = match (found.is_empty(), &stopped_by) {
        (false, _) => "tool_calls",
        (true, None) if generated >= options.max_tokens => "length",
        _ => "stop",
    };
    say(Delta {
        text,
        calls: found,
        finish: Some(finish),
        stopped_by,
        ..Delta::default()
    });
    Ok(generated)
}

fn score(token: u32, ids: &[u32], probabilities: &[f32], top: usize) -> Scored {
    let mut ranked: Vec<(u32, f32)> = ids
        .iter()
        .copied()
        .zip(probabilities.iter().copied())
        .collect();
    let own = ranked
        .iter()
        .find(|(id, _)| *id == token)
        .map_or(0.0, |(_, p)| *p);
    let by_probability = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1);
    if top > 0 && top < ranked.len() {
        ranked.select_nth_unstable_by(top, by_probability);
    }
    ranked.truncate(top);
    ranked.sort_by(by_probability);
    let top = ranked
        .into_iter()
        .map(|(id, p)| (id, logarithm(p)))
        .collect();
    Scored {
        token,
        logprob: logarithm(own),
        top,
    }
}

/// JSON has no infinity. The API writes this number for tokens that are practically impossible.
fn logarithm(probability: f32) -> f32 {
    if probability > 0.0 {
        probability.ln()
    } else {
        -9999.0
    }
}

/// Run lengths of forbidden and allowed tokens, beginning with forbidden ones.
fn mask(options: &Options) -> Option<Vec<u32>> {
    if options.banned.is_empty() && options.only.is_empty() {
        return None;
    }
    let size = vocabulary_size(&options.model);
    let mut runs = vec![0];
    let mut allowed = false;
    for token in 0..size {
        let named = options.only.contains(&token);
        let allow = (options.only.is_empty() || named) && !options.banned.contains(&token);
        if allow != allowed {
            runs.push(0);
            allowed = allow;
        }
        *runs.last_mut().unwrap() += 1;
    }
    Some(runs)
}
