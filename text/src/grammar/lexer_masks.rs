//! Computes masks, and caches the masks of places of the grammar (`history.rs`) and the tokens that the lexer's states
//! decide (`tokens.rs`).
use super::history::{self, Answer, Question, Rows, Spot};
use super::limits;
use super::source::Grammar;
use super::tokens::{Decided, Tokens};
use llguidance::derivre::StateID;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use llguidance::toktrie::{SimpleVob, TokTrie};
use llguidance::TokenParser;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Computes the masks of all walks that share one lexer.
pub struct LexerMasks {
    tokens: Arc<Tokens>,
    /// Whether the parser's state follows from the bytes of a text alone.
    follows: bool,
    known: Mutex<Known>,
}

#[derive(Clone, Default)]
struct Known {
    states: Kept<u32, Arc<Decided>>,
    rows: Rows,
    masks: Kept<Spot, Arc<SimpleVob>>,
    forced: Kept<Place, Arc<Forced>>,
}

/// Where bytes are forced: the last spot of the text, its tokens since then, and its last tokens, with which the tokenizer
/// encodes the bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub from: Spot,
    pub tokens: Box<[u32]>,
    pub recent: Box<[u32]>,
}

/// The tokens that may come next at this place.
#[derive(Clone)]
pub struct Forced {
    pub mask: SimpleVob,
    pub tokens: Vec<u32>,
}

/// Values that are all forgotten when they exceed the limit of their bytes.
#[derive(Clone)]
struct Kept<K, V> {
    all: HashMap<K, V>,
    bytes: usize,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        Kept {
            all: HashMap::new(),
            bytes: 0,
        }
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    fn put(&mut self, key: K, value: V, bytes: usize) {
        if self.bytes + bytes > limits::LEXER_MASK_BYTES {
            *self = Kept::default();
        }
        self.bytes += bytes;
        self.all.insert(key, value);
    }
}

impl LexerMasks {
    /// For a lexer of this parser, which was made of the grammar.
    pub fn new(tokens: Arc<Tokens>, parser: &TokenParser, grammar: &Grammar) -> Self {
        let spec = parser.parser.grammar().lexer_spec();
        // This is not so for grammars with limits that count tokens, or that name tokens of text, because the bytes of such
        // tokens do not matter. A special token never stands inside of a lexeme.
        let is_special = |token| tokens.trie().is_special_token(token);
        let has_text = spec.special_token_rx.is_some() && !grammar.names_only(is_special);
        LexerMasks {
            follows: spec.can_rollback() && !has_text,
            tokens,
            known: Mutex::default(),
        }
    }

    /// The same for a copy of the lexer. The lexer must be copied afterwards: then it has all states that are known here.
    pub fn copy(&self) -> Self {
        LexerMasks {
            tokens: self.tokens.clone(),
            follows: self.follows,
            known: Mutex::new(self.known().clone()),
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn decided(&self, parser: &mut ParserRecognizer<'_>) -> Arc<Decided> {
        let state = parser.lexer_state().as_u32();
        if let Some(found) = self.known().states.all.get(&state) {
            return found.clone();
        }
        let decided = Arc::new(self.tokens.decide(parser));
        let bytes = decided.bytes();
        self.known().states.put(state, decided.clone(), bytes);
        decided
    }

    /// Where the text of the walk is. None if there is no question, or if the spot does not decide the mask.
    fn spot(&self, parser: &mut ParserRecognizer<'_>) -> Option<Spot> {
        let question = history::take_question().filter(|_| self.follows)?;
        let state = parser.lexer_state().as_u32();
        let (rows, is_inside) = if self.stays(parser, &question) {
            let from = question.from;
            (from.rows, from.is_inside || !question.tokens.is_empty())
        } else {
            let most = limits::ROW_BYTES;
            (self.known().rows.number(question, most), false)
        };
        Some(Spot {
            rows,
            state,
            is_inside,
        })
    }

    /// Keeps the mask of a spot. The crate has made it without an error: a parser that exceeds a limit makes a mask that
    /// lacks tokens, and tells it afterwards.
    pub fn keep(&self, spot: Spot, mask: &SimpleVob) {
        let bytes = size_of_val(mask.as_slice());
        self.known().masks.put(spot, Arc::new(mask.clone()), bytes);
    }

    /// The place of a text whose last tokens are `recent`. None if it does not decide what comes next.
    pub fn place(&self, question: Question, recent: &[u32]) -> Option<Place> {
        self.follows.then(|| Place {
            from: question.from,
            tokens: question.tokens.into(),
            recent: recent.into(),
        })
    }

    pub fn forced_at(&self, place: &Place) -> Option<Arc<Forced>> {
        self.known().forced.all.get(place).cloned()
    }

    /// Keeps what comes next at a place that is not a spot. The crate has made it without an error.
    pub fn keep_forced(&self, place: Place, forced: Forced) {
        let tokens = place.tokens.len() + place.recent.len() + forced.tokens.len();
        let bytes = size_of_val(forced.mask.as_slice()) + tokens * size_of::<u32>();
        self.known().forced.put(place, Arc::new(forced), bytes);
    }

    /// Whether the tokens are inside a lexeme, so that the rows stay as they are.
    fn stays(&self, parser: &mut ParserRecognizer<'_>, question: &Question) -> bool {
        if question.from == Spot::BEGINNING {
            return question.tokens.is_empty();
        }
        let trie = self.tokens.trie();
        let mut state = StateID::new(question.from.state);
        for token in &question.tokens {
            let bytes = trie.token(*token);
            let is_special = bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER);
            if bytes.is_empty() || is_special || trie.eos_tokens().contains(token) {
                return false;
            }
            for byte in bytes {
                let lexer = parser.lexer_mut();
                state = lexer.transition_start_state(state, Some(*byte), &None);
                if state.is_dead() || state.has_lowest_match() {
                    return false;
                }
            }
        }
        state == parser.lexer_state()
    }

    fn compute(&self, parser: &mut ParserRecognizer<'_>) -> SimpleVob {
        let decided = self.decided(parser);
        self.tokens.mask(&decided, parser)
    }
}

impl BiasComputer for LexerMasks {
    fn compute_bias(&self, parser: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        if !start.is_empty() {
            let forced = history::with_recent(|recent| self.tokens.forced(parser, recent, start));
            let Some(&first) = forced.first() else {
                return self.tokens.mask_behind(parser, start);
            };
            history::set_forced(forced);
            return self.trie().singleton_token_set(first);
        }
        let Some(spot) = self.spot(parser) else {
            return self.compute(parser);
        };
        let known = self.known().masks.all.get(&spot).cloned();
        history::answer(Answer {
            spot,
            is_known: known.is_some(),
        });
        match known {
            Some(mask) => (*mask).clone(),
            None => self.compute(parser),
        }
    }

    fn trie(&self) -> &TokTrie {
        self.tokens.trie()
    }
}
