//! The tokens of a vocabulary, sorted by what the state of a lexer decides about them.
//!
//! A token either stays within the lexeme that is being read, or it ends the lexeme. The lexer's state alone tells which
//! tokens stay, and all of these are allowed. It also tells which tokens the lexer refuses. The parser is asked about the
//! others only: those that end a lexeme, which are few. So a mask is a copy of the first set, and a short walk of the
//! parser.
use super::{forced, limits, Error};
use llguidance::derivre::Regex;
use llguidance::earley::{BiasComputer, ParserRecognizer, SlicedBiasComputer};
use llguidance::toktrie::{Recognizer, SimpleVob, TokEnv, TokTrie, TrieNode};
use std::sync::Arc;

/// The tokens of a vocabulary as trees of their bytes. Immutable, shared by threads.
pub struct Tokens {
    env: TokEnv,
    slicer: Arc<SlicedBiasComputer>,
    /// The largest slice comes first.
    slices: Vec<Slice>,
    all: Tree,
    /// Whether the tokens that the tokenizer makes of a text are that text.
    is_exact: bool,
}

/// Tokens that match one expression. Where the lexer takes every text of the expression, it takes them all, and no byte of
/// theirs is looked at.
struct Slice {
    /// The number by which a lexer knows the expression.
    number: usize,
    mask: SimpleVob,
    /// The tokens that do not match.
    others: Tree,
}

/// Nodes in preorder, beginning with the root.
struct Tree(Vec<TrieNode>);

impl Tokens {
    /// `slices` are the expressions that `slicer` was made of.
    pub fn new(
        env: &TokEnv,
        slicer: Arc<SlicedBiasComputer>,
        slices: &[String],
        is_exact: bool,
    ) -> Result<Self, Error> {
        let trie = env.tok_trie();
        let slices = slices.iter().enumerate();
        let mut slices = slices
            .map(|(number, expression)| Slice::new(trie, number, expression))
            .collect::<Result<Vec<_>, _>>()?;
        slices.sort_by_key(|slice| std::cmp::Reverse(slice.mask.num_set()));
        Ok(Tokens {
            env: env.clone(),
            slicer,
            slices,
            all: Tree::of(trie),
            is_exact,
        })
    }

    /// Whether tokens can be forced.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The tokens that must come next where the parser has been forced to take these bytes.
    pub fn forced(
        &self,
        parser: &mut ParserRecognizer<'_>,
        recent: &[u32],
        bytes: &[u8],
    ) -> Vec<u32> {
        forced::tokens(&self.env, parser, recent, bytes)
    }

    pub fn trie(&self) -> &TokTrie {
        self.env.tok_trie()
    }

    /// The mask of a parser that must write these bytes first.
    pub fn mask_behind(&self, parser: &mut ParserRecognizer<'_>, bytes: &[u8]) -> SimpleVob {
        self.slicer.compute_bias(parser, bytes)
    }

    /// The mask of a parser whose lexer is in the state of `decided`.
    pub fn mask(&self, decided: &Decided, parser: &mut ParserRecognizer<'_>) -> SimpleVob {
        let mut mask = decided.inside.clone();
        ask(self.tree(decided.slice), &decided.steps, parser, &mut mask);
        mask
    }

    fn tree(&self, slice: Option<usize>) -> &[TrieNode] {
        match slice {
            Some(slice) => &self.slices[slice].others.0,
            None => &self.all.0,
        }
    }

    /// Asks the lexer about all tokens.
    pub fn decide(&self, parser: &mut ParserRecognizer<'_>) -> Decided {
        let start = parser.lexer_state();
        let lexer = parser.lexer_mut();
        let mut inside = self.trie().alloc_token_set();
        let mut largest = None;
        if lexer.subsume_possible(start) {
            for (index, slice) in self.slices.iter().enumerate() {
                let is_new = !is_subset(&slice.mask, &inside);
                let budget = limits::SLICE_BUDGET;
                if is_new
                    && lexer
                        .check_subsume(start, slice.number, budget, None)
                        .unwrap_or(false)
                {
                    inside.or(&slice.mask);
                    largest = largest.or(Some(index));
                }
            }
        }
        let nodes = self.tree(largest);
        let mut steps: Vec<Step> = Vec::new();
        // The inner nodes above the current one: where they end, the state after them, and their step.
        let mut above = vec![(nodes.len(), start, usize::MAX)];
        let mut at = 1;
        loop {
            while above.last().is_some_and(|(end, ..)| at >= *end) {
                let (_, _, step) = above.pop().expect("it was looked at");
                if step.checked_add(1) == Some(steps.len()) {
                    steps.pop(); // no node below ends the lexeme
                }
            }
            let Some(&(_, before, _)) = above.last() else {
                break;
            };
            let (node, depth) = (nodes[at], above.len() - 1);
            let mut step = |is_inside| {
                steps.push(Step {
                    node: at as u32,
                    depth: depth as u16,
                    is_inside,
                });
                steps.len() - 1
            };
            let after = lexer.transition_start_state(before, Some(node.byte()), &None);
            if after.is_dead() || after.has_lowest_match() {
                if !lexer.advance(before, node.byte(), false, &None).is_error() {
                    step(false);
                }
                at += node.subtree_size();
            } else {
                if let Some(token) = node.token_id() {
                    inside.allow_token(token);
                }
                if node.subtree_size() > 1 {
                    above.push((at + node.subtree_size(), after, step(true)));
                }
                at += 1;
            }
        }
        steps.shrink_to_fit();
        Decided {
            inside,
            slice: largest,
            steps,
        }
    }
}

impl Slice {
    fn new(trie: &TokTrie, number: usize, expression: &str) -> Result<Self, Error> {
        let mut regex = Regex::new(expression)
            .map_err(|e| Error::invalid(format!("the expression {expression:?}: {e}")))?;
        let (mut mask, mut others) = (trie.alloc_token_set(), trie.alloc_token_set());
        for token in 0..trie.vocab_size() as u32 {
            let bytes = trie.token(token);
            if !bytes.is_empty() && regex.is_match_bytes(bytes) {
                mask.allow_token(token);
            } else {
                others.allow_token(token);
            }
        }
        Ok(Slice {
            number,
            mask,
            others: Tree::of(&trie.filter(&others)),
        })
    }
}

impl Tree {
    fn of(trie: &TokTrie) -> Self {
        let mut nodes = Vec::with_capacity(trie.root().subtree_size());
        let mut ahead = vec![trie.root()];
        while let Some(node) = ahead.pop() {
            nodes.push(*node);
            let first = ahead.len();
            ahead.extend(trie.node_children(node));
            ahead[first..].reverse();
        }
        Tree(nodes)
    }
}

/// The tokens that one state of a lexer decides.
pub struct Decided {
    /// The tokens after which the lexer is still in the lexeme.
    inside: SimpleVob,
    /// The slice whose `others` the steps lead through; none: all tokens.
    slice: Option<usize>,
    /// The way to the tokens that the parser decides, in the order of the tree.
    steps: Vec<Step>,
}

struct Step {
    node: u32,
    /// The number of bytes above the node.
    depth: u16,
    /// The lexer takes the node's byte within the lexeme, and some node below ends it. Otherwise, the node's byte ends the
    /// lexeme, and the parser decides about the node and all that is below it.
    is_inside: bool,
}

impl Decided {
    pub fn bytes(&self) -> usize {
        size_of_val(self.inside.as_slice()) + size_of_val(&self.steps[..])
    }
}

fn is_subset(a: &SimpleVob, b: &SimpleVob) -> bool {
    let mut words = a.as_slice().iter().zip(b.as_slice());
    words.all(|(a, b)| a & !b == 0)
}

/// Asks the parser about the tokens that the lexer leaves to it.
fn ask(
    nodes: &[TrieNode],
    steps: &[Step],
    parser: &mut ParserRecognizer<'_>,
    mask: &mut SimpleVob,
) {
    if steps.is_empty() {
        return;
    }
    parser.trie_started("lexer_masks");
    let mut depth = 0;
    for step in steps {
        parser.pop_bytes(depth - usize::from(step.depth));
        depth = usize::from(step.depth);
        if !step.is_inside {
            ask_below(nodes, step.node as usize, parser, mask);
        } else if parser.try_push_byte(nodes[step.node as usize].byte()) {
            depth += 1;
        } else {
            break; // the lexer has exceeded its limits, which the crate tells
        }
    }
    parser.pop_bytes(depth);
    parser.trie_finished();
}

/// Asks the parser about a node and all nodes below it.
fn ask_below(
    nodes: &[TrieNode],
    top: usize,
    parser: &mut ParserRecognizer<'_>,
    mask: &mut SimpleVob,
) {
    let end = top + nodes[top].subtree_size();
    let (mut at, mut pushed, mut pop) = (top, 0, 0);
    while at < end {
        parser.pop_bytes(pop);
        pushed -= pop;
        let node = &nodes[at];
        if parser.try_push_byte(node.byte()) {
            pushed += 1;
            if let Some(token) = node.token_id() {
                mask.allow_token(token);
            }
            pop = if node.subtree_size() == 1 {
                node.num_parents()
            } else {
                0
            };
            at += 1;
        } else {
            pop = node.num_parents() - 1;
            at += node.subtree_size();
        }
    }
    parser.pop_bytes(pushed);
}
