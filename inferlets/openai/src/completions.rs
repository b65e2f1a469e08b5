//! `/v1/completions`: the model continues a text, or several.

use crate::api_error::ApiError;
use crate::choices::{collect, generate, Choice, Delta, Usage};
use crate::options::{alternatives, boolean, check_names, vocabulary_size, whole, Options};
use crate::prompt_scores;
use crate::reply::{self, now, SharedEvents};
use crate::scored::Scored;
use inferlet::futures::future::try_join_all;
use inferlet::http::Responder;
use inferlet::prelude::*;
use inferlet::runtime;
use serde_json::{json, Map, Value};
use std::cell::{OnceCell, RefCell};

type Parsed<T> = std::result::Result<T, ApiError>;

const DEFAULT_TOKENS: usize = 16;
const MAX_TOKENS: u64 = 1 << 20;
/// The most prompts of a request, and the most choices of all of them.
const MAX_PROMPTS: usize = 256;
const MAX_ANSWERS: usize = 1024;
const FORMS: &str = "'prompt' must be one or more texts or lists of token ids";

struct Completion {
    options: Options,
    /// How many choices of each prompt are returned: the best of `options.choices`.
    kept: usize,
    prompts: Vec<Prompt>,
    /// Whether the log-probabilities are returned, and not only used to find the best choices.
    shows_logprobs: bool,
}

struct Prompt {
    tokens: Vec<u32>,
    text: String,
    /// The choices repeat the prompt.
    echo: bool,
    /// The tokens of the prompt with their log-probabilities, if the choices repeat it with those.
    scored: Vec<Scored>,
}

pub async fn serve(body: Map<String, Value>, respond: Responder) -> Result<()> {
    let mut completion = match prepare(&body) {
        Ok(prepared) => prepared,
        Err(error) => return reply::fail(respond, error).await,
    };
    if let Err(error) = score_prompts(&mut completion).await {
        return reply::fail(respond, ApiError::engine(error)).await;
    }
    if completion.options.stream {
        stream(completion, respond).await
    } else {
        whole_answer(completion, respond).await
    }
}

fn prepare(fields: &Map<String, Value>) -> Parsed<Completion> {
    check_names(fields, &["prompt", "echo", "suffix", "best_of"])?;
    if fields.get("suffix").is_some_and(|suffix| !suffix.is_null()) {
        let hint = "write the text and the place to fill into the prompt, as your model marks them";
        return Err(ApiError::unsupported("suffix", hint));
    }
    let logprobs = alternatives(fields, "logprobs")?;
    let limit = whole(fields, "max_tokens", 0, MAX_TOKENS)?;
    let limit = limit.map_or(DEFAULT_TOKENS, |limit| limit as usize);
    let mut options = Options::parse(fields, limit, logprobs)?;
    let kept = options.choices;
    if let Some(best_of) = whole(fields, "best_of", 1, 128)? {
        options.choices = best_of as usize;
        if options.choices < kept {
            let text = format!("'best_of' is {best_of}; it must be at least 'n', which is {kept}");
            return Err(ApiError::invalid("best_of", text));
        }
        if options.choices > kept && options.stream {
            let text = "'best_of' cannot be streamed: the best choices are known at the end";
            return Err(ApiError::invalid("best_of", text));
        }
        if options.choices > kept {
            options.logprobs = Some(logprobs.unwrap_or(0));
        }
    }
    let prompts = prompts(&options, fields)?;
    if prompts.len() * options.choices > MAX_ANSWERS {
        let text = format!("a request has at most {MAX_ANSWERS} choices, of all its prompts");
        return Err(ApiError::invalid("prompt", text));
    }
    Ok(Completion {
        options,
        kept,
        prompts,
        shows_logprobs: logprobs.is_some(),
    })
}

/// Reads `prompt`: a text, a list of texts, a list of token ids, or a list of such lists.
fn prompts(options: &Options, fields: &Map<String, Value>) -> Parsed<Vec<Prompt>> {
    let wrong = |text: &str| ApiError::invalid("prompt", text);
    let echo = boolean(fields, "echo")?;
    let tokenizer = options.model.tokenizer();
    let vocabulary = OnceCell::new();
    let size = || *vocabulary.get_or_init(|| vocabulary_size(&options.model));
    let token = |id: &Value| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        id.filter(|id| *id < size())
            .ok_or_else(|| wrong("'prompt' has an id that is not a token of this model"))
    };
    let refused = |error: String| ApiError::invalid("prompt", error);
    let one = |item: &Value| -> Parsed<Prompt> {
        let (tokens, text) = match item {
            Value::String(text) => {
                let tokens = tokenizer.try_encode(text).map_err(refused)?;
                (tokens, text.clone())
            }
            Value::Array(ids) => {
                let tokens = ids.iter().map(token).collect::<Parsed<Vec<u32>>>()?;
                let text = tokenizer.decode(&tokens).map_err(refused)?;
                (tokens, text)
            }
            _ => return Err(wrong(FORMS)),
        };
        if tokens.is_empty() {
            return Err(wrong("the prompt is empty"));
        }
        Ok(Prompt {
            tokens,
            text,
            echo,
            scored: Vec::new(),
        })
    };
    match fields.get("prompt") {
        Some(Value::Array(items)) if items.iter().any(|item| !item.is_number()) => {
            if items.len() > MAX_PROMPTS {
                let text = format!("'prompt' has more than {MAX_PROMPTS} texts");
                return Err(wrong(&text));
            }
            items.iter().map(one).collect()
        }
        Some(item) => Ok(vec![one(item)?]),
        None => Err(wrong(FORMS)),
    }
}

/// Scores the tokens of prompts that are repeated with their log-probabilities.
async fn score_prompts(completion: &mut Completion) -> Result<()> {
    let Some(top) = completion
        .options
        .logprobs
        .filter(|_| completion.shows_logprobs)
    else {
        return Ok(());
    };
    let options = &completion.options;
    let prompts = completion.prompts.iter().filter(|prompt| prompt.echo);
    let scored = prompts.map(|prompt| prompt_scores::of(options, &prompt.tokens, top));
    let scored = try_join_all(scored).await?;
    for (prompt, scored) in completion.prompts.iter_mut().zip(scored) {
        prompt.scored = scored;
    }
    Ok(())
}

impl Completion {
    fn contexts(&self) -> Result<Vec<Context>> {
        let one = |prompt: &Prompt| -> Result<Context> {
            let mut context = Context::new(&self.options.model)?;
            context.append(&prompt.tokens);
            Ok(context)
        };
        self.prompts.iter().map(one).collect()
    }

    /// The choices of all prompts in their order, and what they cost.
    async fn choices(&self) -> Result<(Vec<Choice>, Usage)> {
        if self.options.max_tokens > 0 {
            return collect(&self.options, self.contexts()?).await;
        }
        let empty = |_| Choice {
            finish: "length",
            ..Choice::default()
        };
        let count = self.prompts.len() * self.options.choices;
        Ok(((0..count).map(empty).collect(), self.no_usage()))
    }

    /// The usage of a request that generates nothing.
    fn no_usage(&self) -> Usage {
        Usage {
            prompt: self.prompts.iter().map(|prompt| prompt.tokens.len()).sum(),
            ..Usage::default()
        }
    }

    fn head(&self) -> Map<String, Value> {
        let head = json!({
            "id": format!("cmpl-{}", runtime::instance_id()),
            "object": "text_completion",
            "created": now(),
            "model": self.options.name,
        });
        head.as_object().cloned().unwrap_or_default()
    }

    /// The log-probabilities of tokens. The first token begins at the character `offset` of prompt and answer.
    fn logprobs(&self, tokens: &[&Scored], offset: &mut usize) -> Value {
        if !self.shows_logprobs {
            return Value::Null;
        }
        let (mut words, mut logprobs) = (Vec::new(), Vec::new());
        let (mut tops, mut offsets) = (Vec::new(), Vec::new());
        for scored in tokens {
            let word = self.options.word(scored.token).0;
            offsets.push(*offset);
            *offset += word.chars().count();
            if scored.logprob.is_nan() {
                // Nothing comes before the first token of a prompt.
                logprobs.push(Value::Null);
                tops.push(Value::Null);
            } else {
                let own = (scored.token, scored.logprob);
                let top = scored.top.iter().copied().chain([own]);
                let top: Map<String, Value> = top
                    .map(|(token, logprob)| (self.options.word(token).0, json!(logprob)))
                    .collect();
                logprobs.push(json!(scored.logprob));
                tops.push(Value::Object(top));
            }
            words.push(word);
        }
        json!({
            "tokens": words, "token_logprobs": logprobs, "top_logprobs": tops,
            "text_offset": offsets,
        })
    }
}

fn choice(index: usize, text: &str, logprobs: Value, finish: Option<&str>) -> Value {
    json!({ "index": index, "text": text, "logprobs": logprobs, "finish_reason": finish })
}

/// The mean log-probability of a choice's tokens.
fn quality(choice: &Choice) -> f32 {
    let sum: f32 = choice.tokens.iter().map(|scored| scored.logprob).sum();
    sum / choice.tokens.len().max(1) as f32
}

async fn whole_answer(completion: Completion, respond: Responder) -> Result<()> {
    let (mut choices, usage) = match completion.choices().await {
        Ok(collected) => collected,
        Err(error) => return reply::fail(respond, ApiError::engine(error)).await,
    };
    let mut list = Vec::new();
    for prompt in &completion.prompts {
        let mut own: Vec<Choice> = choices.drain(..completion.options.choices).collect();
        if own.len() > completion.kept {
            own.sort_by(|a, b| quality(b).total_cmp(&quality(a)));
            own.truncate(completion.kept);
        }
        for found in &own {
            let echo = if prompt.echo {
                prompt.text.as_str()
            } else {
                ""
            };
            let tokens: Vec<&Scored> = prompt.scored.iter().chain(&found.tokens).collect();
            let mut offset = match prompt.echo {
                true => 0,
                false => prompt.text.chars().count(),
            };
            let logprobs = completion.logprobs(&tokens, &mut offset);
            let text = format!("{echo}{}", found.text);
            list.push(choice(list.len(), &text, logprobs, Some(found.finish)));
        }
    }
    let mut answer = completion.head();
    answer.insert("choices".into(), list.into());
    answer.insert("usage".into(), usage.json());
    reply::send(respond, &Value::Object(answer)).await
}

async fn stream(completion: Completion, respond: Responder) -> Result<()> {
    let options = &completion.options;
    let head = completion.head();
    let chunk = |choices: Value, usage: Option<&Usage>| {
        let mut chunk = head.clone();
        chunk.insert("choices".into(), choices);
        if options.include_usage {
            chunk.insert("usage".into(), usage.map_or(Value::Null, Usage::json));
        }
        Value::Object(chunk)
    };
    // Where the next token of each choice begins.
    let mut offsets = Vec::new();
    let mut first = Vec::new();
    for prompt in &completion.prompts {
        for _ in 0..options.choices {
            let index = offsets.len();
            offsets.push(prompt.text.chars().count());
            if prompt.echo {
                let tokens: Vec<&Scored> = prompt.scored.iter().collect();
                let logprobs = completion.logprobs(&tokens, &mut 0);
                let said = choice(index, &prompt.text, logprobs, None);
                first.push(chunk(json!([said]), None));
            }
        }
    }
    let count = offsets.len();
    let offsets = RefCell::new(offsets);
    let events = &SharedEvents::new(respond, first);
    let take = |delta: Delta| {
        let tokens: Vec<&Scored> = delta.tokens.iter().collect();
        let mut offsets = offsets.borrow_mut();
        let logprobs = match tokens.is_empty() {
            true => Value::Null,
            false => completion.logprobs(&tokens, &mut offsets[delta.choice]),
        };
        let is_empty = delta.text.is_empty() && tokens.is_empty() && delta.finish.is_none();
        let said = choice(delta.choice, &delta.text, logprobs, delta.finish);
        let chunks = match is_empty {
            true => Vec::new(),
            false => vec![chunk(json!([said]), None)],
        };
        async move { events.send_all(&chunks).await }
    };
    let generated = match options.max_tokens {
        0 => {
            let end = |index| {
                chunk(
                    json!([choice(index, "", Value::Null, Some("length"))]),
                    None,
                )
            };
            let ends: Vec<Value> = (0..count).map(end).collect();
            events.send_all(&ends).await?;
            Ok(completion.no_usage())
        }
        _ => match completion.contexts() {
            Ok(contexts) => generate(options, contexts, take).await,
            Err(error) => Err(error),
        },
    };
    let last = match generated.map_err(ApiError::engine) {
        Ok(usage) if options.include_usage => vec![chunk(json!([]), Some(&usage))],
        Ok(_) => Vec::new(),
        Err(error) => match events.unused() {
            Some(respond) => return reply::fail(respond, error).await,
            None => vec![error.json()],
        },
    };
    events.finish(&last).await
}
