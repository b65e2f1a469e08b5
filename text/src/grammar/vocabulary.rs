//! A tokenizer as grammars see it, and the grammars that were compiled for it. Shared by threads.
use super::compile::{compile, Compiled};
use super::source::{Grammar, Kind};
use super::{limits, Error, Matcher};
use crate::tokenizer::Tokenizer;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::ParserFactory;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

pub struct Vocabulary {
    factory: Arc<ParserFactory>,
    kept: Mutex<Kept>,
}

impl Vocabulary {
    /// `stops` are the tokens that end a text. Takes a tenth of a second for a vocabulary of a hundred thousand tokens.
    pub fn new(tokenizer: Arc<Tokenizer>, stops: &[u32]) -> Result<Self, Error> {
        let env: TokEnv = Arc::new(Env::new(tokenizer, stops)?);
        let failed = |e| Error::invalid(format!("the vocabulary cannot be used by grammars: {e}"));
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices())
            .map_err(failed)?;
        *factory.limits_mut() = limits::parser();
        factory.quiet();
        Ok(Vocabulary {
            factory: Arc::new(factory),
            kept: Mutex::default(),
        })
    }

    /// Compiles the grammar, or finds it compiled.
    pub fn compile(&self, grammar: &Grammar) -> Result<Arc<Compiled>, Error> {
        if let Some(found) = self.kept().get(grammar) {
            return Ok(found);
        }
        let compiled = compile(&self.factory, grammar)?;
        self.kept().put(grammar, compiled.clone());
        Ok(compiled)
    }

    /// Whether [`Vocabulary::compile`] would return at once.
    pub fn has(&self, grammar: &Grammar) -> bool {
        self.kept().get(grammar).is_some()
    }

    /// A matcher at the beginning of a text.
    pub fn matcher(&self, grammar: &Grammar) -> Result<Matcher, Error> {
        Ok(Matcher::new(self.compile(grammar)?))
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Tokens are allowed together where an expression of one of these is. Beside the texts of JSON, these are words and
/// numbers, of which most tokens consist.
fn slices() -> Vec<String> {
    let mut slices = SlicedBiasComputer::general_slices();
    slices.extend(["[a-z0-9]+", "[a-zA-Z0-9_-]+"].map(String::from));
    slices
}

/// Compiled grammars by source. The one that was not used for the longest time goes first.
#[derive(Default)]
struct Kept {
    all: HashMap<(Kind, Arc<str>), (Arc<Compiled>, u64)>,
    bytes: usize,
    uses: u64,
}

impl Kept {
    fn get(&mut self, grammar: &Grammar) -> Option<Arc<Compiled>> {
        self.uses += 1;
        let (compiled, used) = self.all.get_mut(&grammar.key())?;
        *used = self.uses;
        Some(compiled.clone())
    }

    fn put(&mut self, grammar: &Grammar, compiled: Arc<Compiled>) {
        self.uses += 1;
        let key = grammar.key();
        let size = key.1.len();
        if self.all.insert(key, (compiled, self.uses)).is_none() {
            self.bytes += size;
        }
        while self.all.len() > limits::KEPT
            || (self.bytes > limits::KEPT_BYTES && self.all.len() > 1)
        {
            let oldest = self.all.iter().min_by_key(|(_, (_, used))| *used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.bytes -= key.1.len();
            self.all.remove(&key);
        }
    }
}

struct Env {
    tokenizer: Arc<Tokenizer>,
    trie: TokTrie,
    canonical: bool,
}

/// Stands in front of a text so that a tokenizer does not write a space there. It merges with nothing.
const FRONT: char = '\u{2}';

impl Env {
    fn new(tokenizer: Arc<Tokenizer>, stops: &[u32]) -> Result<Self, Error> {
        let size = tokenizer.vocab_size();
        let stops: Vec<u32> = stops.iter().copied().filter(|stop| *stop < size).collect();
        let Some(&first) = stops.first() else {
            return Err(Error::invalid(
                "the model has no token that ends a text, so no grammar can end",
            ));
        };
        let words: Vec<Vec<u8>> = (0..size).map(|id| word(&tokenizer, id)).collect();
        let trie = TokTrie::from(&TokRxInfo::new(size, first), &words).with_eos_tokens(&stops);
        let mut env = Env {
            tokenizer,
            trie,
            canonical: true,
        };
        env.canonical = ["a", " a b", "{\"key\": [1, 2]}\n", "é€\u{1F35E}"]
            .iter()
            .all(|text| env.encode(text).is_some());
        Ok(env)
    }

    /// The tokens of a text in the middle of another. None if they would not be the text.
    fn encode(&self, text: &str) -> Option<Vec<u32>> {
        let mut tokens = if self.tokenizer.drops_leading_space() {
            let mut tokens = self
                .tokenizer
                .encode_plain(&format!("{FRONT}{text}"))
                .ok()?;
            let at = tokens
                .iter()
                .position(|id| self.tokenizer.bytes(*id).ends_with(&[FRONT as u8]))?;
            tokens.drain(..=at);
            tokens
        } else {
            self.tokenizer.encode_plain(text).ok()?
        };
        let written: Vec<u8> = tokens
            .iter()
            .flat_map(|id| self.tokenizer.bytes(*id).iter().copied())
            .collect();
        if written != text.as_bytes() {
            return None;
        }
        tokens.shrink_to_fit();
        Some(tokens)
    }
}

/// The bytes of a token, a special one behind a mark that no text has.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let specials = tokenizer.specials();
    if let Ok(at) = specials.binary_search_by_key(&id, |special| special.0) {
        let mut word = vec![TokTrie::SPECIAL_TOKEN_MARKER];
        word.extend_from_slice(specials[at].1.as_bytes());
        return word;
    }
    let bytes = tokenizer.bytes(id);
    if bytes.len() > limits::TOKEN_BYTES || bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
        return Vec::new();
    }
    bytes.to_vec()
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let whole = |text: &str| {
            self.encode(text)
                .unwrap_or_else(|| self.trie.greedy_tokenize(text.as_bytes()))
        };
        self.trie.tokenize_with_greedy_fallback(bytes, whole)
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.canonical
    }
}
