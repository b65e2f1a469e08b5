//! The parameters that both kinds of completions share.

use crate::api_error::ApiError;
use crate::auto_calls::AutoCalls;
use crate::draw::Bias;
use crate::forms::{calls, Either, Form};
use crate::tools::Tools;
use inferlet::adapter::Adapter;
use inferlet::model::Model;
use inferlet::{runtime, Constrain, Sampler};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

type Fields = Map<String, Value>;
type Parsed<T> = std::result::Result<T, ApiError>;

const MAX_CHOICES: u64 = 128;
/// The official API takes four.
pub const MAX_STOPS: usize = 64;
const MAX_LOGPROBS: u64 = 20;
const MAX_BIASES: usize = 4096;

/// Fields of the API that change nothing here.
const IGNORED: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "prediction",
    "verbosity",
];

/// The types of fields whose values change nothing here. They are checked all the same, so that a request that works here
/// is one that the API takes.
const TEXTS: &[&str] = &[
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning_effort",
    "verbosity",
    "truncation",
];
const OBJECTS: &[&str] = &[
    "metadata",
    "prediction",
    "prompt_cache_options",
    "reasoning",
    "text",
    "stream_options",
];

pub struct Options {
    pub model: Model,
    /// The adapter that the request has named as its model.
    pub adapter: Option<Adapter>,
    pub name: String,
    pub stream: bool,
    pub include_usage: bool,
    pub choices: usize,
    pub max_tokens: usize,
    /// Whether the request has stated `max_tokens`.
    pub has_limit: bool,
    pub temperature: f32,
    pub top_p: f32,
    pub top_k: Option<u32>,
    pub seed: Option<u64>,
    pub stops: Vec<String>,
    /// How many alternatives to report for each token. None: no log-probabilities.
    pub logprobs: Option<usize>,
    /// Tokens that are never chosen, and tokens that are the only ones allowed.
    pub banned: HashSet<u32>,
    pub only: HashSet<u32>,
    /// Other biases, and penalties.
    pub bias: Bias,
    pub form: Form,
    /// The tools that the answer may call.
    pub tools: Tools,
    /// Whether the thoughts of the model are told apart from its answer.
    pub splits_thoughts: bool,
    /// The bytes of every token, once they were asked for.
    pub vocabulary: OnceCell<HashMap<u32, Vec<u8>>>,
}

/// Refuses fields that the API does not have.
pub fn check_names(fields: &Fields, known: &[&str]) -> Parsed<()> {
    const SHARED: &[&str] = &[
        "model",
        "stream",
        "stream_options",
        "n",
        "max_tokens",
        "temperature",
        "top_p",
        "seed",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
    ];
    for name in fields.keys().map(String::as_str) {
        if !SHARED.contains(&name) && !known.contains(&name) && !IGNORED.contains(&name) {
            let text = format!("Unrecognized request argument supplied: {name}");
            return Err(ApiError::invalid(name, text));
        }
    }
    check_types(fields)
}

/// Refuses fields of the wrong type among those that are not read.
pub fn check_types(fields: &Fields) -> Parsed<()> {
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let name = name.as_str();
        let expected = if TEXTS.contains(&name) && !value.is_string() {
            "a text"
        } else if OBJECTS.contains(&name) && !value.is_object() {
            "an object"
        } else {
            continue;
        };
        let text = format!("'{name}' must be {expected}, not {value}");
        return Err(ApiError::invalid(name, text));
    }
    boolean(fields, "store")?;
    Ok(())
}

pub fn number(fields: &Fields, name: &str, least: f64, most: f64) -> Parsed<Option<f64>> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(ApiError::invalid(
                name,
                format!("'{name}' must be a number from {least} to {most}, not {value}"),
            )),
        },
    }
}

pub fn whole(fields: &Fields, name: &str, least: u64, most: u64) -> Parsed<Option<u64>> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(ApiError::invalid(
                name,
                format!("'{name}' must be a whole number from {least} to {most}, not {value}"),
            )),
        },
    }
}

pub fn boolean(fields: &Fields, name: &str) -> Parsed<bool> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(value) => Err(ApiError::invalid(
            name,
            format!("'{name}' must be true or false, not {value}"),
        )),
    }
}

impl Options {
    /// `max_tokens` and `logprobs` differ between the two kinds, so the caller has read them.
    pub fn parse(fields: &Fields, max_tokens: usize, logprobs: Option<usize>) -> Parsed<Options> {
        let name = model_name(fields)?;
        let (model, adapter) = find_model(&name)?;
        let stream_options = fields.get("stream_options").and_then(Value::as_object);
        let stream = boolean(fields, "stream")?;
        if stream_options.is_some() && !stream {
            return Err(ApiError::invalid(
                "stream_options",
                "'stream_options' needs 'stream': true",
            ));
        }
        let (banned, only, mut bias) = biases(fields, &model)?;
        bias.presence = number(fields, "presence_penalty", -2.0, 2.0)?.unwrap_or(0.0) as f32;
        bias.frequency = number(fields, "frequency_penalty", -2.0, 2.0)?.unwrap_or(0.0) as f32;
        // The API has signed seeds.
        let seed = match fields.get("seed") {
            None | Some(Value::Null) => None,
            Some(value) => match (value.as_i64(), value.as_u64()) {
                (Some(seed), _) => Some(seed as u64),
                (_, Some(seed)) => Some(seed),
                _ => {
                    return Err(ApiError::invalid(
                        "seed",
                        format!("'seed' must be a whole number, not {value}"),
                    ))
                }
            },
        };
        Ok(Options {
            model,
            adapter,
            name,
            stream,
            include_usage: match stream_options {
                Some(options) => boolean(options, "include_usage")?,
                None => false,
            },
            choices: whole(fields, "n", 1, MAX_CHOICES)?.unwrap_or(1) as usize,
            max_tokens,
            has_limit: true,
            temperature: number(fields, "temperature", 0.0, 2.0)?.unwrap_or(1.0) as f32,
            top_p: number(fields, "top_p", 0.0, 1.0)?.unwrap_or(1.0) as f32,
            top_k: None,
            seed,
            stops: stops(fields)?,
            logprobs,
            banned,
            only,
            bias,
            form: Form::default(),
            tools: Tools::default(),
            splits_thoughts: false,
            vocabulary: OnceCell::new(),
        })
    }

    /// The grammar that the text of an answer must follow, if there is one.
    pub fn constraint(&self) -> inferlet::Result<Option<Box<dyn Constrain>>> {
        let several = !self.tools.one_call;
        let form = self.form.constraint(&self.model, several)?;
        let may_call = !self.tools.callable.is_empty() && !self.tools.must;
        Ok(match form {
            Some(form) if may_call => {
                let held = self.tools.held(&self.model);
                match held.and_then(|tools| calls(&self.model, tools, several).ok()?) {
                    Some(calls) => Some(Box::new(Either::new(form, calls))),
                    None => Some(Box::new(form)),
                }
            }
            Some(form) => Some(Box::new(form)),
            None if may_call => AutoCalls::new(&self.model, &self.tools)
                .map(|calls| Box::new(calls) as Box<dyn Constrain>),
            None => None,
        })
    }

    /// The text of a token, and its bytes. A token that is a part of a character is written by its bytes.
    pub fn word(&self, token: u32) -> (String, Vec<u8>) {
        let text = self.model.tokenizer().decode(&[token]);
        let text = text.unwrap_or_default();
        if !text.contains(char::REPLACEMENT_CHARACTER) {
            let bytes = text.as_bytes().to_vec();
            return (text, bytes);
        }
        let all = || {
            let (ids, words) = self.model.tokenizer().vocabs();
            ids.into_iter().zip(words).collect()
        };
        let bytes = self.vocabulary.get_or_init(all).get(&token);
        let bytes = bytes.cloned().unwrap_or_default();
        let text = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        (text, bytes)
    }

    pub fn sampler(&self) -> Sampler {
        if self.temperature == 0.0 {
            Sampler::Argmax
        } else if let Some(k) = self.top_k {
            Sampler::top_k_top_p(self.temperature, k, self.top_p)
        } else if self.top_p < 1.0 {
            Sampler::top_p(self.temperature, self.top_p)
        } else {
            Sampler::multinomial(self.temperature, 1)
        }
    }
}

pub fn model_name(fields: &Fields) -> Parsed<String> {
    match fields.get("model") {
        Some(Value::String(name)) => Ok(name.clone()),
        _ => Err(ApiError::invalid(
            "model",
            "you must provide a model parameter",
        )),
    }
}

/// Finds a model of the config, or an adapter of the user, which is a model with changes.
pub fn find_model(name: &str) -> Parsed<(Model, Option<Adapter>)> {
    let models = runtime::models();
    if models.iter().any(|model| model == name) {
        return Ok((Model::load(name).map_err(ApiError::engine)?, None));
    }
    for model in &models {
        let model = Model::load(model).map_err(ApiError::engine)?;
        // Look the name up first: opening a name that no adapter can have would be an error of another kind.
        if !Adapter::names(&model)
            .map_err(ApiError::engine)?
            .iter()
            .any(|adapter| adapter == name)
        {
            continue;
        }
        if let Some(adapter) = Adapter::try_open(&model, name).map_err(ApiError::engine)? {
            return Ok((model, Some(adapter)));
        }
    }
    Err(ApiError::unknown_model(name))
}

/// One more than the largest token. Reads the whole vocabulary.
pub fn vocabulary_size(model: &Model) -> u32 {
    let (known, _) = model.tokenizer().vocabs();
    known.iter().max().map_or(0, |last| last + 1)
}

/// The number of alternatives of a field that counts them.
pub fn alternatives(fields: &Fields, name: &str) -> Parsed<Option<usize>> {
    Ok(whole(fields, name, 0, MAX_LOGPROBS)?.map(|count| count as usize))
}

fn stops(fields: &Fields) -> Parsed<Vec<String>> {
    let wrong = || {
        let text = format!(
            "'stop' must be a text or a list of at most {MAX_STOPS} texts that are not empty"
        );
        ApiError::invalid("stop", text)
    };
    let stops = match fields.get("stop") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => {
            let texts: Option<Vec<String>> = list
                .iter()
                .map(|item| item.as_str().map(str::to_string))
                .collect();
            texts.ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
    };
    if stops.len() > MAX_STOPS || stops.iter().any(String::is_empty) {
        return Err(wrong());
    }
    Ok(stops)
}

/// Splits the biases into tokens that are never chosen, tokens that are the only ones allowed, and biases of other tokens.
/// The first two are masks, which cost nothing.
fn biases(fields: &Fields, model: &Model) -> Parsed<(HashSet<u32>, HashSet<u32>, Bias)> {
    let wrong = |text: &str| Err(ApiError::invalid("logit_bias", text));
    let biases = match fields.get("logit_bias") {
        None | Some(Value::Null) => return Ok(Default::default()),
        Some(Value::Object(biases)) => biases,
        Some(_) => return wrong("'logit_bias' must be an object from token ids to numbers"),
    };
    let (mut banned, mut only) = (HashSet::new(), HashSet::new());
    let mut bias = Bias::default();
    if biases.len() > MAX_BIASES {
        return wrong("'logit_bias' has too many tokens");
    }
    let size = (!biases.is_empty()).then(|| vocabulary_size(model));
    for (token, value) in biases {
        let known = token.parse::<u32>().ok().filter(|id| Some(*id) < size);
        let Some(token) = known else {
            let last = size.map_or(0, |size| size.saturating_sub(1));
            let text = format!(
                "the keys of 'logit_bias' must be ids of tokens, from 0 to {last}, not '{token}'"
            );
            return wrong(&text);
        };
        match value.as_f64() {
            Some(-100.0) => {
                banned.insert(token);
            }
            Some(100.0) => {
                only.insert(token);
            }
            Some(0.0) => {}
            Some(value) if (-100.0..=100.0).contains(&value) => {
                bias.added.insert(token, value as f32);
            }
            _ => return wrong("the values of 'logit_bias' must be numbers from -100 to 100"),
        }
    }
    Ok((banned, only, bias))
}
