//! Generation: the choices of a request, side by side, each in a fork of the prompt's context.

use crate::api_error::is_too_long;
use crate::draw::Draw;
use crate::options::{vocabulary_size, Options};
use crate::reply::SILENCE;
use crate::scored::Scored;
use crate::speech::Speech;
use crate::tools::Call;
use inferlet::chat::{Decoder, Event};
use inferlet::futures::channel::mpsc;
use inferlet::futures::future::{join_all, pending, select, try_join_all, Either};
use inferlet::futures::StreamExt;
use inferlet::prelude::*;
use inferlet::sample::{Distribution, Logits};
use inferlet::time::sleep;
use inferlet::Constrain;
use serde_json::{json, Value};
use std::cell::RefCell;

/// Some more text of a choice.
#[derive(Default)]
pub struct Delta {
    pub choice: usize,
    pub text: String,
    pub thought: String,
    pub tokens: Vec<Scored>,
    pub calls: Vec<Call>,
    /// Set with the last delta: the reason why the choice ended.
    pub finish: Option<&'static str>,
    /// The stop text that ended it.
    pub stopped_by: Option<String>,
}

/// A whole choice.
#[derive(Default)]
pub struct Choice {
    pub text: String,
    pub thought: String,
    pub tokens: Vec<Scored>,
    pub calls: Vec<Call>,
    pub finish: &'static str,
    pub stopped_by: Option<String>,
}

impl Choice {
    pub fn take(&mut self, delta: Delta) {
        self.text.push_str(&delta.text);
        self.thought.push_str(&delta.thought);
        self.tokens.extend(delta.tokens);
        self.calls.extend(delta.calls);
        self.finish = delta.finish.unwrap_or(self.finish);
        self.stopped_by = delta.stopped_by.or(self.stopped_by.take());
    }
}

/// Generates all choices of all prompts, and waits for their ends.
pub async fn collect(options: &Options, prompts: Vec<Context>) -> Result<(Vec<Choice>, Usage)> {
    let choices = (0..options.choices * prompts.len()).map(|_| Choice::default());
    let choices: RefCell<Vec<Choice>> = RefCell::new(choices.collect());
    let take = |delta: Delta| {
        choices.borrow_mut()[delta.choice].take(delta);
        std::future::ready(Ok(()))
    };
    let usage = generate(options, prompts, take).await?;
    Ok((choices.into_inner(), usage))
}

#[derive(Default)]
pub struct Usage {
    pub prompt: usize,
    /// The tokens of the prompt that the engine found in its cache.
    pub cached: usize,
    pub completion: usize,
    /// The tokens of the completion that were thoughts.
    pub thoughts: usize,
}

impl Usage {
    pub fn json(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": { "cached_tokens": self.cached },
            "completion_tokens_details": { "reasoning_tokens": self.thoughts },
        })
    }
}

/// Generates all choices of all prompts: choice `c` of prompt `p` has the number `p * options.choices + c`. `take` gets the
/// text of each choice as it is generated; in a stream also an empty piece now and then. If `take` fails, the client has left.
pub async fn generate<F>(
    options: &Options,
    prompts: Vec<Context>,
    take: impl FnMut(Delta) -> F,
) -> Result<Usage>
where
    F: std::future::Future<Output = Result<()>>,
{
    let mut take = take;
    let lengths: Vec<usize> = prompts.iter().map(length).collect();
    let mut usage = Usage {
        prompt: lengths.iter().sum(),
        ..Usage::default()
    };
    let (tell, mut told) = mpsc::unbounded();
    let work = async move {
        let groups = prompts.into_iter().map(|prompt| forks(options, prompt));
        let (groups, cached): (Vec<_>, Vec<_>) = try_join_all(groups).await?.into_iter().unzip();
        let contexts = groups.into_iter().flatten();
        let runs = contexts
            .enumerate()
            .map(|(choice, context)| run(options, choice, context, tell.clone()));
        let counts = join_all(runs).await;
        let counts = counts.into_iter().collect::<Result<Vec<Count>>>()?;
        Ok::<_, String>((counts, cached))
    };
    let deliver = async {
        let mut tick = Box::pin(tick(options.stream));
        loop {
            let next = match select(told.next(), tick.as_mut()).await {
                Either::Left((next, _)) => Some(next),
                Either::Right(_) => None,
            };
            let delta = match next {
                Some(Some(delta)) => delta,
                Some(None) => break,
                None => {
                    tick.set(self::tick(options.stream));
                    Delta::default() // nothing new: the stream may need a ping
                }
            };
            take(delta).await?;
        }
        Ok::<(), String>(())
    };
    let (worked, delivered) = inferlet::futures::join!(work, deliver);
    delivered?;
    let (counts, cached): (Vec<Count>, Vec<u64>) = worked?;
    for count in &counts {
        usage.completion += count.generated;
        usage.thoughts += count.thoughts;
    }
    let choices = counts.chunks(options.choices);
    for ((own, shared), length) in choices.zip(cached).zip(lengths) {
        // Choices that compute the prompt each for itself also find what one of them has computed.
        let found = shared + own.iter().map(|count| count.cached).min().unwrap_or(0);
        usage.cached += length.min(found as usize);
    }
    Ok(usage)
}

/// Waits until it is time to ask whether the stream needs a ping. Answers that are no streams need none.
async fn tick(is_stream: bool) {
    match is_stream {
        true => sleep(SILENCE / 3).await,
        false => pending().await,
    }
}

/// The tokens of one choice.
struct Count {
    generated: usize,
    thoughts: usize,
    /// Tokens of the prompt that the choice's own context found in the engine's cache.
    cached: u64,
}

/// The number of tokens of a prompt.
pub fn length(prompt: &Context) -> usize {
    prompt.seq_len() as usize + prompt.buffer().len()
}

/// The contexts of the choices of one prompt, and how many tokens of the part that they share were cached.
async fn forks(options: &Options, mut prompt: Context) -> Result<(Vec<Context>, u64)> {
    let mut contexts = Vec::new();
    let mut cached = 0;
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
            cached = prompt.cached_tokens();
            for _ in 0..options.choices {
                let mut fork = prompt.fork()?;
                fork.append(&[last]);
                contexts.push(fork);
            }
        }
    } else {
        contexts.push(prompt);
    }
    Ok((contexts, cached))
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

/// Generates one choice, and counts its tokens.
async fn run(
    options: &Options,
    choice: usize,
    mut context: Context,
    tell: mpsc::UnboundedSender<Delta>,
) -> Result<Count> {
    let model = options.model.clone();
    let say = |delta: Delta| drop(tell.unbounded_send(Delta { choice, ..delta }));
    let mut speech = Speech::new(options);
    let mut generator = context.generate(options.sampler());
    // The limit also tells the engine how long the answer will be, so the default limit is not passed on.
    if options.has_limit {
        generator = generator.max_tokens(options.max_tokens);
    }
    // The seeds are far apart, so that no two choices of a prompt draw the same numbers.
    let number = (choice % options.choices) as u64;
    let seed = options.seed.map(|seed| seed.wrapping_add(number << 32));
    if let Some(seed) = seed {
        generator = generator.seed(seed);
    }
    let mut draw = (!options.bias.is_none()).then(|| Draw::new(options, seed));
    let mut constraint = options.constraint()?;
    if draw.is_none() {
        if let Some(mask) = mask(options) {
            generator = generator.logit_mask(&mask);
        }
        if let Some(constraint) = constraint.take() {
            generator = generator.constrain(constraint);
        }
    }
    if let Some(adapter) = &options.adapter {
        generator = generator.adapter(adapter);
    }
    // A distribution is of the model itself: at temperature 1, before any cut.
    let whole = Distribution {
        temperature: 1.0,
        k: 0,
    };
    let probe = options
        .logprobs
        .map(|_| generator.probe_each_step(0, whole));
    let mut decoder = Decoder::new(&model);
    let mut accepted = Vec::new();
    let mut is_full = false;
    while generator.tokens_generated() < options.max_tokens {
        let Some(mut step) = generator.next()? else {
            break;
        };
        // Where the inferlet draws the tokens, it applies the constraint too.
        let Some(mask) = allowed(&mut constraint, &accepted)? else {
            break;
        };
        let logits = draw.is_some().then(|| {
            step.clear_sampler();
            step.probe(0, Logits)
        });
        let mut output = match step.execute().await {
            Err(error) if is_too_long(&error) && generator.tokens_generated() > 0 => {
                is_full = true;
                break;
            }
            output => output?,
        };
        if let (Some(draw), Some(logits)) = (&mut draw, logits) {
            let packed = output.logits(logits).ok_or("the engine gave no logits")?;
            let token = draw.next(packed, &mask)?;
            output.tokens = generator.accept(&[token]);
            accepted.clone_from(&output.tokens);
        }
        let scored = match (probe, options.logprobs) {
            (Some(probe), Some(top)) => output
                .distribution(probe)
                .map(|(ids, probabilities)| {
                    output
                        .tokens
                        .iter()
                        .map(|token| Scored::of(*token, ids, probabilities, top))
                        .collect()
                })
                .unwrap_or_default(),
            _ => Vec::new(),
        };
        let mut event = decoder.feed(&output.tokens)?;
        if let Event::Interrupt(_) = event {
            event = decoder.feed(&[])?; // the text around the control token
        }
        let text = match event {
            Event::Delta(text) => text,
            Event::Done(_) => break,
            Event::Idle | Event::Interrupt(_) => String::new(),
        };
        let said = speech.take(&output.tokens, text, scored)?;
        if !said.text.is_empty() || !said.thought.is_empty() || !said.tokens.is_empty() {
            say(said);
        }
        if speech.stopped_by.is_some() {
            break;
        }
    }
    let generated = generator.tokens_generated();
    drop(generator);
    let mut last = speech.end()?;
    last.finish = Some(match (last.calls.is_empty(), &last.stopped_by) {
        (false, _) => "tool_calls",
        (true, None) if is_full || generated >= options.max_tokens => "length",
        _ => "stop",
    });
    say(last);
    Ok(Count {
        generated,
        thoughts: speech.thoughts.map_or(0, |thoughts| thoughts.count),
        cached: context.cached_tokens(),
    })
}

/// The mask of the next token under a constraint that the inferlet applies itself. An empty mask allows all tokens. None
/// means that the text is complete.
fn allowed(
    constraint: &mut Option<Box<dyn Constrain>>,
    accepted: &[u32],
) -> Result<Option<Vec<u32>>> {
    let Some(constraint) = constraint else {
        return Ok(Some(Vec::new()));
    };
    let mask = constraint.step(accepted).to_vec();
    match constraint.failure() {
        Some(failure) => Err(failure.to_string()),
        None => Ok((!constraint.is_finished()).then_some(mask)),
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
