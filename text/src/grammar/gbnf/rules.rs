//! The rules of a grammar, made as regular as they can be.
use super::parse::Node;
use crate::grammar::{limits, Budget, Error, ErrorKind};
use std::cell::Cell;

pub struct Rules {
    pub bodies: Vec<Node>,
    /// Rules that are written as rules. All others are written out wherever they are used.
    pub kept: Vec<bool>,
}

impl Rules {
    pub fn new(mut bodies: Vec<Node>, budget: &Budget) -> Result<Rules, Error> {
        let ending = ends(&bodies, budget)?;
        if !ending[0] {
            return Err(Error::invalid(
                "no text can match the grammar: the rule `root` never ends",
            ));
        }
        for body in &mut bodies {
            // Nothing names a rule that never ends any more.
            *body = ended(body, &ending).unwrap_or(Node::Sequence(vec![]));
        }
        for (number, body) in bodies.iter_mut().enumerate() {
            if let Some(better) = without_tail(number, body) {
                *body = better;
            }
        }
        let mut sizes = Sizes {
            bodies: &bodies,
            found: vec![Found::No; bodies.len()],
        };
        let kept = (0..bodies.len())
            .map(|rule| sizes.of_rule(rule).is_none())
            .collect();
        let mut made = Rules { bodies, kept };
        made.kept[0] = true;
        let left = Cell::new(limits::PARTS);
        for number in 0..made.bodies.len() {
            if made.kept[number] {
                made.bodies[number] = made.written_out(&made.bodies[number], &left)?;
            }
        }
        Ok(made)
    }

    /// `node`, with the bodies of the rules that are not kept in place of their names. `left`: parts that may still be
    /// written.
    fn written_out(&self, node: &Node, left: &Cell<usize>) -> Result<Node, Error> {
        let all = |nodes: &[Node]| -> Result<Vec<Node>, Error> {
            nodes
                .iter()
                .map(|node| self.written_out(node, left))
                .collect()
        };
        let parts = match node {
            Node::Class(ranges) => 1 + ranges.len(),
            _ => 1,
        };
        let rest = left.get().checked_sub(parts).ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the grammar has more than {} parts, with its rules written out",
                    limits::PARTS
                ),
            )
        })?;
        left.set(rest);
        Ok(match node {
            Node::Class(_) => node.clone(),
            Node::Rule(rule) if self.kept[*rule] => node.clone(),
            Node::Rule(rule) => self.written_out(&self.bodies[*rule], left)?,
            Node::Sequence(nodes) => Node::Sequence(all(nodes)?),
            Node::Choice(nodes) => Node::Choice(all(nodes)?),
            Node::Repeat { node, least, most } => Node::Repeat {
                node: Box::new(self.written_out(node, left)?),
                least: *least,
                most: *most,
            },
        })
    }
}

/// Whether each rule has a finite match.
fn ends(bodies: &[Node], budget: &Budget) -> Result<Vec<bool>, Error> {
    fn node_ends(node: &Node, known: &[bool], budget: &Budget) -> bool {
        if !budget.take(1) {
            return false;
        }
        match node {
            Node::Class(_) => true,
            Node::Rule(rule) => known[*rule],
            Node::Sequence(nodes) => nodes.iter().all(|node| node_ends(node, known, budget)),
            Node::Choice(nodes) => nodes.iter().any(|node| node_ends(node, known, budget)),
            Node::Repeat { node, least, .. } => *least == 0 || node_ends(node, known, budget),
        }
    }
    let mut known = vec![false; bodies.len()];
    loop {
        let mut changed = false;
        // Rules mostly use later ones.
        for (rule, body) in bodies.iter().enumerate().rev() {
            if !known[rule] && node_ends(body, &known, budget) {
                known[rule] = true;
                changed = true;
            }
        }
        budget.check()?;
        if !changed {
            return Ok(known);
        }
    }
}

/// What is left of a part without rules that never end, which a text could begin and not leave; None if it never ends.
fn ended(node: &Node, ending: &[bool]) -> Option<Node> {
    let part = |node: &Node| ended(node, ending);
    match node {
        Node::Class(_) => Some(node.clone()),
        Node::Rule(rule) => ending[*rule].then(|| node.clone()),
        Node::Sequence(nodes) => {
            let nodes: Option<Vec<Node>> = nodes.iter().map(part).collect();
            nodes.map(Node::Sequence)
        }
        Node::Choice(nodes) => {
            let nodes: Vec<Node> = nodes.iter().filter_map(part).collect();
            (!nodes.is_empty()).then_some(Node::Choice(nodes))
        }
        Node::Repeat { node, least, most } => match part(node) {
            Some(node) => Some(Node::Repeat {
                node: Box::new(node),
                least: *least,
                most: *most,
            }),
            None => (*least == 0).then(|| Node::Sequence(vec![])),
        },
    }
}

#[derive(Clone, Copy)]
enum Found {
    No,
    /// The rule is being examined. Meeting it again means that it is recursive.
    Begun,
    /// Parts of the rule, written out. None: it is recursive, or too large to be written out.
    Size(Option<usize>),
}

struct Sizes<'a> {
    bodies: &'a [Node],
    found: Vec<Found>,
}

impl Sizes<'_> {
    fn of_rule(&mut self, rule: usize) -> Option<usize> {
        match self.found[rule] {
            Found::Size(size) => return size,
            Found::Begun => {
                self.found[rule] = Found::Size(None);
                return None;
            }
            Found::No => {}
        }
        self.found[rule] = Found::Begun;
        let bodies = self.bodies;
        let size = self
            .of(&bodies[rule])
            .filter(|size| *size <= limits::WRITTEN_OUT);
        if !matches!(self.found[rule], Found::Size(_)) {
            self.found[rule] = Found::Size(size);
        }
        match self.found[rule] {
            Found::Size(size) => size,
            _ => None,
        }
    }

    /// A kept rule counts as one part. None: the rule is recursive.
    fn of(&mut self, node: &Node) -> Option<usize> {
        match node {
            Node::Class(ranges) => Some(ranges.len()),
            Node::Rule(rule) => Some(self.of_rule(*rule).unwrap_or(1)),
            Node::Sequence(nodes) | Node::Choice(nodes) => nodes
                .iter()
                .try_fold(1usize, |sum, node| Some(sum.saturating_add(self.of(node)?))),
            Node::Repeat { node, .. } => Some(self.of(node)?.saturating_add(1)),
        }
    }
}

/// A rule that only goes on with itself at its end (`ws ::= ([ \t] ws)?`) as a repetition.
fn without_tail(rule: usize, body: &Node) -> Option<Node> {
    let (mut steps, mut ends) = (Vec::new(), Vec::new());
    for branch in branches(body) {
        let mut items = match branch {
            Node::Sequence(items) => items,
            other => vec![other],
        };
        let goes_on = items.last() == Some(&Node::Rule(rule));
        if goes_on {
            items.pop();
        }
        if items.iter().any(|item| mentions(rule, item)) {
            return None;
        }
        if goes_on {
            steps.push(Node::Sequence(items));
        } else {
            ends.push(Node::Sequence(items));
        }
    }
    if steps.is_empty() || ends.is_empty() {
        return None;
    }
    let again = Node::Repeat {
        node: Box::new(Node::Choice(steps)),
        least: 0,
        most: None,
    };
    Some(Node::Sequence(vec![again, Node::Choice(ends)]))
}

fn branches(body: &Node) -> Vec<Node> {
    match body {
        Node::Choice(nodes) => nodes.iter().flat_map(branches).collect(),
        Node::Repeat {
            node,
            least: 0,
            most: Some(1),
        } => {
            let mut all = branches(node);
            all.push(Node::Sequence(vec![]));
            all
        }
        other => vec![other.clone()],
    }
}

fn mentions(rule: usize, node: &Node) -> bool {
    match node {
        Node::Class(_) => false,
        Node::Rule(other) => *other == rule,
        Node::Sequence(nodes) | Node::Choice(nodes) => {
            nodes.iter().any(|node| mentions(rule, node))
        }
        Node::Repeat { node, .. } => mentions(rule, node),
    }
}
