//! Generation: the choices of a request, side by side, each in a fork of the prompt's context.

use crate::options::Options;
use crate::stops::Stops;
use crate::tools::{Call, Calls};
use inferlet::chat::{Decoder, Event};
use inferlet::futures::channel::mpsc;
use inferlet::futures::future::join_all;
use inferlet::futures::StreamExt;
use inferlet::prelude::*;
use inferlet::sample::Distribution;
use serde_json::{json, Value};

/// Some more text of a choice.
pub struct Delta {
    pub choice: usize,
    pub text: String,
    pub tokens: Vec<Scored>,
    pub calls: Vec<Call>,
    /// Set by the last one: why the choice ended.
    pub finish: Option<&'static str>,
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

/// Generates all choices. `take` gets what each of them says, as it comes; if it fails, nobody listens any more.
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
    if options.choices > 1 {
        // All but the last token of the prompt is computed once, for all of them.
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

/// The same context with this as its whole buffer, computed.
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
    let say = |text: String, tokens: Vec<Scored>, finish: Option<&'static str>| {
        let _ = tell.unbounded_send(Delta {
            choice,
            text,
            tokens,
            calls: Vec::new(),
            finish,
        });
    };
    let mut calls = options.tools.then(|| Calls::new(&model));
    // Where a call may come, nothing is shown before it is known that none did.
    let mut held = String::new();
    let mut decoder = Decoder::new(&model);
    let mut stops = Stops::new(&options.stops);
    let mut generator = context
        .generate(options.sampler())
        .max_tokens(options.max_tokens);
    if let Some(seed) = options.seed {
        // Far apart, so that no two choices draw the same numbers.
        generator = generator.seed(seed.wrapping_add((choice as u64) << 32));
    }
    if let Some(mask) = mask(options) {
        generator = generator.logit_mask(&mask);
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
    let mut finish = "stop";
    while let Some(step) = generator.next()? {
        let output = step.execute().await?;
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
        let (text, ended) = match event {
            Event::Delta(text) => stops.push(&text),
            Event::Done(_) => break,
            Event::Idle | Event::Interrupt(_) => (String::new(), false),
        };
        if calls.is_some() {
            held.push_str(&text);
            if ended {
                break;
            }
            continue;
        }
        if ended {
            let generated = generator.tokens_generated();
            say(text, scored, Some("stop"));
            return Ok(generated);
        }
        if !text.is_empty() || !scored.is_empty() {
            say(text, scored, None);
        }
    }
    let generated = generator.tokens_generated();
    if generated >= options.max_tokens {
        finish = "length";
    }
    let calls = calls.map_or_else(Vec::new, |calls| calls.found);
    if !calls.is_empty() {
        let finish = Some("tool_calls");
        let delta = Delta {
            choice,
            text: String::new(),
            tokens: Vec::new(),
            calls,
            finish,
        };
        let _ = tell.unbounded_send(delta);
        return Ok(generated);
    }
    say(held + &stops.rest(), Vec::new(), Some(finish));
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

/// JSON has no infinity; the API writes this number for what is as good as impossible.
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
    let (ids, _) = options.model.tokenizer().vocabs();
    let size = ids.iter().max().map_or(0, |last| last + 1);
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
