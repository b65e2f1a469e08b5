//! Merges neighbours until no pair fits: the pair of the lowest rank first, and of equal ranks the leftmost. A queue
//! keeps the cost at n log n for pieces of any length.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub const NONE: u32 = u32::MAX;

/// A part of the piece: `len` bytes from `start`. A part that was merged into another has no bytes.
#[derive(Clone, Copy)]
pub struct Symbol {
    /// Its token, or `NONE`.
    pub id: u32,
    pub start: u32,
    pub len: u32,
    previous: u32,
    next: u32,
}

/// Two neighbours that could be merged. They are unchanged if their bytes together are still `len`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    at: u32,
    len: u32,
    id: u32,
}

/// Rank and token of a pair.
pub type Pair = Option<(u32, u32)>;

/// Buffers that are reused for every piece of a text.
#[derive(Default)]
pub struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Candidate>>,
}

impl Scratch {
    pub fn clear(&mut self) {
        self.symbols.clear();
        self.queue.clear();
    }

    pub fn push(&mut self, id: u32, start: usize, len: usize) {
        let at = self.symbols.len() as u32;
        if let Some(last) = self.symbols.last_mut() {
            last.next = at;
        }
        self.symbols.push(Symbol {
            id,
            start: start as u32,
            len: len as u32,
            previous: at.wrapping_sub(1), // NONE for the first
            next: NONE,
        });
    }

    /// `join` says what two neighbours become.
    pub fn merge(&mut self, join: impl Fn(&Symbol, &Symbol) -> Pair) {
        for right in 1..self.symbols.len() as u32 {
            self.consider(right - 1, right, &join);
        }
        while let Some(Reverse(best)) = self.queue.pop() {
            let left = self.symbols[best.at as usize];
            if left.len == 0 || left.next == NONE {
                continue;
            }
            let right = self.symbols[left.next as usize];
            if left.len + right.len != best.len {
                continue;
            }
            self.symbols[left.next as usize].len = 0;
            let merged = &mut self.symbols[best.at as usize];
            merged.id = best.id;
            merged.len = best.len;
            merged.next = right.next;
            if right.next != NONE {
                self.symbols[right.next as usize].previous = best.at;
                self.consider(best.at, right.next, &join);
            }
            if left.previous != NONE {
                self.consider(left.previous, best.at, &join);
            }
        }
    }

    fn consider(&mut self, at: u32, next: u32, join: &impl Fn(&Symbol, &Symbol) -> Pair) {
        let (left, right) = (&self.symbols[at as usize], &self.symbols[next as usize]);
        if let Some((rank, id)) = join(left, right) {
            self.queue.push(Reverse(Candidate {
                rank,
                at,
                len: left.len + right.len,
                id,
            }));
        }
    }

    pub fn symbols(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.len != 0)
    }
}
