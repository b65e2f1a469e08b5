//! Which pieces of a grammar may be lexemes.
//!
//! Lark's lexer goes on as long as any lexeme can go on, and never looks back. A lexeme is safe if, after each of its
//! matches, no character that may follow in the grammar could also continue this lexeme or another one. Pieces for
//! which that cannot be shown are taken apart into single characters, which are always safe among themselves.
use super::parse::{merged, Node};
use super::rules::Rules;
use crate::grammar::{Budget, Error};
use std::collections::{HashMap, HashSet};

pub type Ranges = Vec<(char, char)>;

/// A rule's body, cut into lexemes.
#[derive(Clone, Debug)]
pub enum Part {
    /// By number.
    Lexeme(usize),
    Rule(usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    Repeat {
        part: Box<Part>,
        least: u32,
        most: Option<u32>,
    },
}

pub struct Cut {
    /// Bodies by rule; none for rules that are not kept.
    pub bodies: Vec<Option<Part>>,
    /// No lexeme mentions a rule.
    pub lexemes: Vec<Node>,
}

/// More characters than this in all lexemes together are not examined: all pieces are taken apart.
const POSITIONS: usize = 1_000;

pub fn cut(rules: &Rules, budget: &Budget) -> Result<Cut, Error> {
    let mut apart: HashSet<usize> = HashSet::new();
    loop {
        let mut cutter = Cutter {
            apart: &apart,
            pieces: 0,
            lexemes: Vec::new(),
            from: Vec::new(),
            known: HashMap::new(),
        };
        let bodies = rules
            .bodies
            .iter()
            .zip(&rules.kept)
            .map(|(body, kept)| kept.then(|| cutter.part(body)))
            .collect();
        let (lexemes, from) = (cutter.lexemes, cutter.from);
        let cut = Cut { bodies, lexemes };
        let before = apart.len();
        for lexeme in conflicts(&cut, budget)? {
            apart.extend(from[lexeme]);
        }
        if apart.len() == before {
            return Ok(cut);
        }
    }
}

struct Cutter<'a> {
    /// Pieces that are taken apart.
    apart: &'a HashSet<usize>,
    pieces: usize,
    lexemes: Vec<Node>,
    /// The piece that each lexeme is; none for a single character.
    from: Vec<Option<usize>>,
    /// Single characters that are lexemes already.
    known: HashMap<Ranges, usize>,
}

impl Cutter<'_> {
    fn part(&mut self, node: &Node) -> Part {
        if is_regular(node) {
            return self.piece(node.clone());
        }
        match node {
            Node::Rule(rule) => Part::Rule(*rule),
            Node::Sequence(nodes) => {
                let (mut parts, mut run) = (Vec::new(), Vec::new());
                for node in nodes {
                    if is_regular(node) {
                        run.push(node.clone());
                        continue;
                    }
                    if !run.is_empty() {
                        parts.push(self.piece(Node::Sequence(std::mem::take(&mut run))));
                    }
                    parts.push(self.part(node));
                }
                if !run.is_empty() {
                    parts.push(self.piece(Node::Sequence(run)));
                }
                Part::Sequence(parts)
            }
            Node::Choice(nodes) => {
                let (regular, rest): (Vec<&Node>, Vec<&Node>) =
                    nodes.iter().partition(|node| is_regular(node));
                let mut parts: Vec<Part> = rest.into_iter().map(|node| self.part(node)).collect();
                if !regular.is_empty() {
                    parts.push(self.piece(Node::Choice(regular.into_iter().cloned().collect())));
                }
                Part::Choice(parts)
            }
            Node::Repeat { node, least, most } => Part::Repeat {
                part: Box::new(self.part(node)),
                least: *least,
                most: *most,
            },
            Node::Class(ranges) => self.single(ranges),
        }
    }

    fn piece(&mut self, node: Node) -> Part {
        let number = self.pieces;
        self.pieces += 1;
        if self.apart.contains(&number) {
            return self.singles(&node);
        }
        if let Node::Class(ranges) = &node {
            return self.single(ranges);
        }
        self.lexemes.push(node);
        self.from.push(Some(number));
        Part::Lexeme(self.lexemes.len() - 1)
    }

    fn singles(&mut self, node: &Node) -> Part {
        let mut all = |nodes: &[Node]| nodes.iter().map(|node| self.singles(node)).collect();
        match node {
            Node::Class(ranges) => self.single(ranges),
            Node::Rule(rule) => Part::Rule(*rule),
            Node::Sequence(nodes) => Part::Sequence(all(nodes)),
            Node::Choice(nodes) => Part::Choice(all(nodes)),
            Node::Repeat { node, least, most } => Part::Repeat {
                part: Box::new(self.singles(node)),
                least: *least,
                most: *most,
            },
        }
    }

    fn single(&mut self, ranges: &Ranges) -> Part {
        if let Some(number) = self.known.get(ranges) {
            return Part::Lexeme(*number);
        }
        self.lexemes.push(Node::Class(ranges.clone()));
        self.from.push(None);
        self.known.insert(ranges.clone(), self.lexemes.len() - 1);
        Part::Lexeme(self.lexemes.len() - 1)
    }
}

fn is_regular(node: &Node) -> bool {
    match node {
        Node::Class(_) => true,
        Node::Rule(_) => false,
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().all(is_regular),
        Node::Repeat { node, .. } => is_regular(node),
    }
}

/// Lexemes that the lexer could wrongly prefer, and those over which it could wrongly prefer another.
fn conflicts(cut: &Cut, budget: &Budget) -> Result<HashSet<usize>, Error> {
    let size: usize = cut.lexemes.iter().map(characters).sum();
    budget.spend(size)?;
    if size > POSITIONS {
        return Ok((0..cut.lexemes.len()).collect());
    }
    let automata: Vec<Automaton> = (cut.lexemes.iter())
        .map(|lexeme| Automaton::new(lexeme, budget))
        .collect();
    let follow = Follow::new(cut, &automata, budget)?.of_lexemes;
    let mut found = HashSet::new();
    for (a, behind) in follow.iter().enumerate() {
        for b in 0..automata.len() {
            if !(found.contains(&a) && found.contains(&b))
                && goes_on(&automata[a], &automata[b], behind, budget)
            {
                found.extend([a, b]);
            }
        }
        budget.check()?;
    }
    Ok(found)
}

/// The characters of a lexeme.
fn characters(node: &Node) -> usize {
    match node {
        Node::Class(_) => 1,
        Node::Rule(_) => 0,
        Node::Sequence(nodes) | Node::Choice(nodes) => nodes.iter().map(characters).sum(),
        Node::Repeat { node, .. } => characters(node),
    }
}

/// Whether some match of `a` can be continued in `b` by one of the characters `behind`.
fn goes_on(a: &Automaton, b: &Automaton, behind: &Ranges, budget: &Budget) -> bool {
    let width = b.classes.len();
    let mut seen = vec![false; a.classes.len() * width];
    let mut open: Vec<(usize, usize)> = Vec::new();
    let step = |p: &[usize], q: &[usize], open: &mut Vec<(usize, usize)>, seen: &mut [bool]| {
        if !budget.take(1 + p.len() * q.len() / 8) {
            return;
        }
        for &p in p {
            for &q in q {
                if !seen[p * width + q] && meet(&a.classes[p], &b.classes[q], budget) {
                    seen[p * width + q] = true;
                    open.push((p, q));
                }
            }
        }
    };
    step(&a.first, &b.first, &mut open, &mut seen);
    while let Some((p, q)) = open.pop() {
        if a.last.contains(&p)
            && b.next[q]
                .iter()
                .any(|r| meet(&b.classes[*r], behind, budget))
        {
            return true;
        }
        step(&a.next[p], &b.next[q], &mut open, &mut seen);
    }
    false
}

/// Both are in order.
fn meet(mut a: &[(char, char)], mut b: &[(char, char)], budget: &Budget) -> bool {
    if !budget.take(1 + (a.len() + b.len()) / 4) {
        return false;
    }
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
        if x.0 <= y.1 && y.0 <= x.1 {
            return true;
        }
        match x.1 < y.1 {
            true => a = rest_a,
            false => b = rest_b,
        }
    }
    false
}

/// A lexeme's characters and their order. Counts are left out, so that it matches more than the lexeme does, never less.
struct Automaton {
    classes: Vec<Ranges>,
    first: Vec<usize>,
    last: HashSet<usize>,
    next: Vec<Vec<usize>>,
    nullable: bool,
}

/// The ends of a piece of an automaton.
struct Ends {
    first: Vec<usize>,
    last: Vec<usize>,
    nullable: bool,
}

impl Automaton {
    fn new(node: &Node, budget: &Budget) -> Automaton {
        let mut made = Automaton {
            classes: Vec::new(),
            first: Vec::new(),
            last: HashSet::new(),
            next: Vec::new(),
            nullable: false,
        };
        let ends = made.add(node, budget);
        made.first = ends.first;
        made.last = ends.last.into_iter().collect();
        made.nullable = ends.nullable;
        made
    }

    fn join(&mut self, last: &[usize], first: &[usize], budget: &Budget) {
        for &p in last {
            if !budget.take(1 + (self.classes.len() + first.len()) / 8) {
                return;
            }
            let mut known = vec![false; self.classes.len()];
            self.next[p].iter().for_each(|q| known[*q] = true);
            self.next[p].extend(first.iter().filter(|q| !known[**q]));
        }
    }

    fn add(&mut self, node: &Node, budget: &Budget) -> Ends {
        match node {
            Node::Class(ranges) => {
                self.classes.push(ranges.clone());
                self.next.push(Vec::new());
                let at = self.classes.len() - 1;
                Ends {
                    first: vec![at],
                    last: vec![at],
                    nullable: false,
                }
            }
            Node::Sequence(nodes) => {
                let mut whole = Ends {
                    first: vec![],
                    last: vec![],
                    nullable: true,
                };
                for node in nodes {
                    let ends = self.add(node, budget);
                    self.join(&whole.last, &ends.first, budget);
                    if whole.nullable {
                        whole.first.extend(&ends.first);
                    }
                    if !ends.nullable {
                        whole.last.clear();
                    }
                    whole.last.extend(ends.last);
                    whole.nullable &= ends.nullable;
                }
                whole
            }
            Node::Choice(nodes) => {
                let mut whole = Ends {
                    first: vec![],
                    last: vec![],
                    nullable: false,
                };
                for node in nodes {
                    let ends = self.add(node, budget);
                    whole.first.extend(ends.first);
                    whole.last.extend(ends.last);
                    whole.nullable |= ends.nullable;
                }
                whole
            }
            Node::Repeat { node, least, most } => {
                let mut ends = self.add(node, budget);
                if *most != Some(1) {
                    self.join(&ends.last, &ends.first, budget);
                }
                ends.nullable |= *least == 0;
                ends
            }
            Node::Rule(_) => unreachable!("lexemes mention no rules"),
        }
    }
}

pub fn is_nullable(node: &Node) -> bool {
    match node {
        Node::Class(_) | Node::Rule(_) => false,
        Node::Sequence(nodes) => nodes.iter().all(is_nullable),
        Node::Choice(nodes) => nodes.iter().any(is_nullable),
        Node::Repeat { node, least, .. } => *least == 0 || is_nullable(node),
    }
}

/// The characters that may follow each lexeme.
struct Follow<'a> {
    automata: &'a [Automaton],
    budget: &'a Budget,
    /// The first symbols of a rule, and whether the rule may be empty.
    begins: Vec<(Ranges, bool)>,
    of_rules: Vec<Ranges>,
    of_lexemes: Vec<Ranges>,
    changed: bool,
}

fn add(to: &mut Ranges, more: &Ranges, budget: &Budget) -> bool {
    if more.is_empty() || !budget.take(10 + to.len() + more.len()) {
        return false;
    }
    let mut all = to.clone();
    all.extend(more);
    let all = merged(all);
    let changed = all != *to;
    *to = all;
    changed
}

impl<'a> Follow<'a> {
    fn new(cut: &'a Cut, automata: &'a [Automaton], budget: &'a Budget) -> Result<Self, Error> {
        let rules = cut.bodies.len();
        let mut made = Follow {
            automata,
            budget,
            begins: vec![(vec![], false); rules],
            of_rules: vec![vec![]; rules],
            of_lexemes: vec![vec![]; automata.len()],
            changed: true,
        };
        while std::mem::take(&mut made.changed) {
            for rule in 0..rules {
                let Some(body) = &cut.bodies[rule] else {
                    continue;
                };
                let begins = made.begin(body);
                made.changed |= add(&mut made.begins[rule].0, &begins.0, budget);
                made.changed |= made.begins[rule].1 != begins.1;
                made.begins[rule].1 |= begins.1;
                budget.check()?;
            }
        }
        made.changed = true;
        while std::mem::take(&mut made.changed) {
            for rule in 0..rules {
                if let Some(body) = &cut.bodies[rule] {
                    let behind = made.of_rules[rule].clone();
                    made.walk(body, &behind);
                }
                budget.check()?;
            }
        }
        Ok(made)
    }

    fn begin(&self, part: &Part) -> (Ranges, bool) {
        self.budget.take(1);
        match part {
            Part::Lexeme(lexeme) => {
                let automaton = &self.automata[*lexeme];
                let mut all = Ranges::new();
                for class in automaton.first.iter().map(|p| &automaton.classes[*p]) {
                    add(&mut all, class, self.budget);
                }
                (all, automaton.nullable)
            }
            Part::Rule(rule) => self.begins[*rule].clone(),
            Part::Sequence(parts) => {
                let mut all = (vec![], true);
                for part in parts {
                    let (ranges, nullable) = self.begin(part);
                    add(&mut all.0, &ranges, self.budget);
                    all.1 = nullable;
                    if !nullable {
                        break;
                    }
                }
                all
            }
            Part::Choice(parts) => {
                let mut all = (vec![], false);
                for part in parts {
                    let (ranges, nullable) = self.begin(part);
                    add(&mut all.0, &ranges, self.budget);
                    all.1 |= nullable;
                }
                all
            }
            Part::Repeat { part, least, .. } => {
                let (ranges, nullable) = self.begin(part);
                (ranges, nullable || *least == 0)
            }
        }
    }

    fn walk(&mut self, part: &Part, behind: &Ranges) {
        match part {
            Part::Lexeme(lexeme) => {
                self.changed |= add(&mut self.of_lexemes[*lexeme], behind, self.budget)
            }
            Part::Rule(rule) => self.changed |= add(&mut self.of_rules[*rule], behind, self.budget),
            Part::Choice(parts) => parts.iter().for_each(|part| self.walk(part, behind)),
            Part::Sequence(parts) => {
                let mut behind = behind.clone();
                for part in parts.iter().rev() {
                    self.walk(part, &behind);
                    let (ranges, nullable) = self.begin(part);
                    if !nullable {
                        behind.clear();
                    }
                    add(&mut behind, &ranges, self.budget);
                }
            }
            Part::Repeat { part, most, .. } => {
                let mut behind = behind.clone();
                if *most != Some(1) {
                    add(&mut behind, &self.begin(part).0, self.budget);
                }
                self.walk(part, &behind);
            }
        }
    }
}
