//! A tokenizer as grammars see it, and the grammars that were compiled for it. Shared by threads.
use super::compile::{compile, permit, Compiled};
use super::permits::Permit;
use super::running::{Joined, Lead, Running};
use super::source::{Grammar, Kind};
use super::tokens::Tokens;
use super::{limits, Error, ErrorKind, Matcher};
use crate::tokenizer::Tokenizer;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenizerEnv};
use llguidance::ParserFactory;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub struct Vocabulary {
    factory: Arc<ParserFactory>,
    tokens: Arc<Tokens>,
    kept: Mutex<Kept>,
    running: Running,
}

impl Vocabulary {
    /// `stops` are the tokens that end a text. Takes a tenth of a second for a vocabulary of a hundred thousand tokens.
    pub fn new(tokenizer: Arc<Tokenizer>, stops: &[u32]) -> Result<Self, Error> {
        let env = Env::new(tokenizer, stops)?;
        let is_exact = env.is_exact();
        let env: TokEnv = Arc::new(env);
        let failed = |e| Error::invalid(format!("grammars cannot use the vocabulary: {e}"));
        let mut factory = ParserFactory::new(&env, InferenceCapabilities::default(), &slices())
            .map_err(failed)?;
        *factory.limits_mut() = limits::parser();
        factory.quiet();
        let tokens = Tokens::new(&env, factory.slicer(), &slices(), is_exact)?;
        Ok(Vocabulary {
            factory: Arc::new(factory),
            tokens: Arc::new(tokens),
            kept: Mutex::default(),
            running: Running::default(),
        })
    }

    /// Compiles the grammar, or finds it compiled, or waits for another who compiles it. `owner` stands for the user who
    /// asks.
    pub fn compile(&self, grammar: &Grammar, owner: u64) -> Result<Arc<Compiled>, Error> {
        let until = Instant::now() + limits::COMPILE_TIME;
        loop {
            if let Some(found) = self.kept().get(grammar) {
                return Ok(found);
            }
            let running = match self.running.find(&grammar.key()) {
                Some(running) => running,
                None => {
                    // A compilation that waits for its permit is not running: another owner may begin it earlier.
                    let permit = permit(owner, until)?;
                    match self.running.join(grammar.key()) {
                        Joined::Own(lead) => return self.lead(lead, grammar, owner, permit, until),
                        Joined::Others(running) => running,
                    }
                }
            };
            match running.wait(until) {
                // The caller that compiled it had less time left than this one has.
                Err(error) if error.kind == ErrorKind::TooSlow && Instant::now() < until => {}
                outcome => return outcome,
            }
        }
    }

    fn lead(
        &self,
        lead: Lead,
        grammar: &Grammar,
        owner: u64,
        permit: Permit,
        until: Instant,
    ) -> Result<Arc<Compiled>, Error> {
        let found = self.kept().get(grammar); // another has ended meanwhile
        let outcome = match found {
            Some(found) => Ok(found),
            None => compile(&self.factory, &self.tokens, grammar, permit, until).inspect(|made| {
                self.kept().put(grammar, made.clone(), owner);
            }),
        };
        lead.end(outcome.clone());
        outcome
    }

    /// A matcher of a grammar that is compiled already; none if it is not.
    pub fn kept_matcher(&self, grammar: &Grammar) -> Option<Matcher> {
        let found = self.kept().get(grammar);
        found.map(Matcher::new)
    }

    /// Whether [`Vocabulary::compile`] would return at once.
    #[cfg(test)]
    pub(super) fn has(&self, grammar: &Grammar) -> bool {
        self.kept().get(grammar).is_some()
    }

    /// A matcher at the beginning of a text. `owner` stands for the user who asks.
    pub fn matcher(&self, grammar: &Grammar, owner: u64) -> Result<Matcher, Error> {
        Ok(Matcher::new(self.compile(grammar, owner)?))
    }

    /// A parser of the crate without our caches.
    #[cfg(test)]
    pub(super) fn plain(&self, grammar: &Grammar) -> Result<llguidance::Matcher, Error> {
        let parser = self.factory.create_parser(grammar.top_level());
        let parser = parser.map_err(|e| Error::invalid(e.to_string()))?;
        Ok(llguidance::Matcher::new(Ok(parser)))
    }

    /// The tokens of a text in the middle of another.
    #[cfg(test)]
    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        self.factory.tok_env().tokenize_bytes(text.as_bytes())
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

/// Compiled grammars by source. When there are too many, the least recently used grammar of the owner who has most of
/// them is dropped. So an owner with many grammars cannot push out those of others.
#[derive(Default)]
struct Kept {
    all: HashMap<Key, Entry>,
    uses: u64,
}

pub(super) type Key = (Kind, Arc<str>);

struct Entry {
    compiled: Arc<Compiled>,
    used: u64,
    owner: u64,
}

impl Kept {
    fn get(&mut self, grammar: &Grammar) -> Option<Arc<Compiled>> {
        self.uses += 1;
        let entry = self.all.get_mut(&grammar.key())?;
        entry.used = self.uses;
        Some(entry.compiled.clone())
    }

    fn put(&mut self, grammar: &Grammar, compiled: Arc<Compiled>, owner: u64) {
        self.uses += 1;
        let used = self.uses;
        let entry = Entry {
            compiled,
            used,
            owner,
        };
        self.all.insert(grammar.key(), entry);
        self.drop_beyond(limits::KEPT, limits::KEPT_BYTES);
    }

    /// Drops grammars until these limits are kept. The last one stays, however large it is.
    fn drop_beyond(&mut self, most: usize, bytes: usize) {
        // A grammar grows while texts use it, so it is weighed anew.
        let weights: HashMap<Key, usize> = (self.all.iter())
            .map(|(key, entry)| (key.clone(), key.1.len() + entry.compiled.bytes()))
            .collect();
        let mut sum: usize = weights.values().sum();
        loop {
            let next = match (self.all.len() > most, sum > bytes && self.all.len() > 1) {
                (true, _) => self.oldest_of_largest(|_| 1),
                (_, true) => self.oldest_of_largest(|key| weights[key]),
                _ => return,
            };
            let Some(key) = next else { return };
            sum -= weights[&key];
            self.all.remove(&key);
        }
    }

    /// The least recently used grammar of the owner whose grammars weigh most.
    fn oldest_of_largest(&self, weight: impl Fn(&Key) -> usize) -> Option<Key> {
        let mut weights = HashMap::<u64, usize>::new();
        for (key, entry) in &self.all {
            *weights.entry(entry.owner).or_default() += weight(key);
        }
        let (&largest, _) = weights.iter().max_by_key(|(_, weight)| **weight)?;
        let theirs = self.all.iter().filter(|(_, entry)| entry.owner == largest);
        let (key, _) = theirs.min_by_key(|(_, entry)| entry.used)?;
        Some(key.clone())
    }
}

struct Env {
    tokenizer: Arc<Tokenizer>,
    trie: TokTrie,
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
        Ok(Env { tokenizer, trie })
    }

    /// Whether the tokens of a text are that text, as far as some samples tell.
    fn is_exact(&self) -> bool {
        ["a", " a b", "{\"key\": [1, 2]}\n", "é€\u{1F35E}"]
            .iter()
            .all(|text| self.encode(text).is_some())
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

/// The bytes of a token, a special one after a mark that no text has.
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

    /// The crate must not force tokens: it keeps some that the tokenizer would write otherwise (`forced.rs`).
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile::too_slow;
    use super::*;

    fn vocabulary() -> Vocabulary {
        let tokenizer = Tokenizer::from_bytes(&["<|end|>"]).unwrap();
        Vocabulary::new(Arc::new(tokenizer), &[256]).unwrap()
    }

    #[test]
    fn who_waited_for_a_compilation_that_was_too_slow_tries_again() {
        let vocabulary = vocabulary();
        let grammar = Grammar::from_regex("a+").unwrap();
        let Joined::Own(lead) = vocabulary.running.join(grammar.key()) else {
            panic!("nobody compiles it")
        };
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| vocabulary.compile(&grammar, 0).is_ok());
            lead.end(Err(too_slow()));
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn what_is_kept_weighs_what_it_takes() {
        let vocabulary = vocabulary();
        let regex = |text: &str| Grammar::from_regex(text).unwrap();
        let (small, large) = (regex("a+"), regex("(a|b)*a(a|b){6}"));
        let others = [1, 2].map(|n| regex(&format!("[0-9]{{{n}}}")));
        assert!(vocabulary.kept_matcher(&small).is_none());
        for (owner, grammar) in [(1, &small), (2, &large), (1, &others[0]), (1, &others[1])] {
            vocabulary.compile(grammar, owner).unwrap();
        }
        let bytes = |grammar| vocabulary.compile(grammar, 0).unwrap().bytes();
        assert!(bytes(&large) > 100 * large.text().len());
        // One of its owner's grammars is the oldest, and their sum is the largest.
        let of_first = [&small, &others[0], &others[1]]
            .map(bytes)
            .iter()
            .sum::<usize>();
        let all = of_first + bytes(&large);
        let first = of_first > bytes(&large);
        vocabulary.kept().drop_beyond(10, all);
        assert_eq!(vocabulary.has(&small), !first);
        assert_eq!(vocabulary.has(&large), first);
        vocabulary.kept().drop_beyond(1, usize::MAX);
        vocabulary.kept().drop_beyond(10, 0);
        assert_eq!(vocabulary.kept().all.len(), 1, "the last one stays");
    }
}
