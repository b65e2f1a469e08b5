//! GBNF text → rules. Errors tell the line and the column.
use crate::grammar::{limits, Error, ErrorKind, Place};
use std::collections::HashMap;

/// The text that a rule matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// One character of these ranges, which are in order and do not touch.
    Class(Vec<(char, char)>),
    /// A rule, by its number.
    Rule(usize),
    /// All of them, one after the other. None: the empty text.
    Sequence(Vec<Node>),
    /// One of them.
    Choice(Vec<Node>),
    Repeat {
        node: Box<Node>,
        least: u32,
        most: Option<u32>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Spot {
    line: usize,
    column: usize,
}

impl Spot {
    fn error(self, text: impl Into<String>) -> Error {
        Error::invalid(text).at(Place::Position {
            line: self.line,
            column: self.column,
        })
    }

    fn too_large(self, text: String) -> Error {
        let mut error = self.error(text);
        error.kind = ErrorKind::TooLarge;
        error
    }
}

/// The text that each rule matches, by its number. Number 0 is `root`.
pub fn parse(text: &str) -> Result<Vec<Node>, Error> {
    let mut parser = Parser {
        text: text.chars().collect(),
        at: 0,
        spot: Spot { line: 1, column: 1 },
        names: HashMap::new(),
        uses: Vec::new(),
        depth: 0,
    };
    let mut bodies: HashMap<usize, (Node, Spot)> = HashMap::new();
    parser.names.insert("root".into(), 0);
    parser.skip();
    while parser.peek().is_some() {
        let spot = parser.spot;
        let name = parser.name()?;
        parser.define(spot)?;
        let rule = parser.number(&name);
        if bodies.len() >= limits::RULES {
            return Err(spot.too_large(format!("there are more than {} rules", limits::RULES)));
        }
        let body = parser.choice()?;
        if let Some(')' | ']' | '}') = parser.peek() {
            return Err(parser.spot.error("no bracket is open here"));
        }
        if let Some((_, first)) = bodies.insert(rule, (body, spot)) {
            return Err(spot.error(format!(
                "the rule `{name}` is already defined in line {}",
                first.line
            )));
        }
    }
    for (rule, spot) in &parser.uses {
        if !bodies.contains_key(rule) {
            let name = parser.names.iter().find(|(_, n)| *n == rule);
            let name = name.map_or("", |(name, _)| name.as_str());
            return Err(spot.error(format!("the rule `{name}` is not defined")));
        }
    }
    if !bodies.contains_key(&0) {
        return Err(Spot { line: 1, column: 1 }
            .error("there is no rule `root`, with which every text begins"));
    }
    let mut rules: Vec<(usize, Node)> = bodies.into_iter().map(|(n, b)| (n, b.0)).collect();
    rules.sort_by_key(|(number, _)| *number);
    Ok(rules.into_iter().map(|(_, body)| body).collect())
}

struct Parser {
    text: Vec<char>,
    at: usize,
    spot: Spot,
    names: HashMap<String, usize>,
    uses: Vec<(usize, Spot)>,
    depth: usize,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        if c == '\n' {
            self.spot.line += 1;
            self.spot.column = 1;
        } else {
            self.spot.column += 1;
        }
        Some(c)
    }

    /// Over space and comments.
    fn skip(&mut self) {
        while let Some(c) = self.peek() {
            if c == '#' {
                while self.peek().is_some_and(|c| c != '\n') {
                    self.next();
                }
            } else if c.is_whitespace() {
                self.next();
            } else {
                return;
            }
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        let spot = self.spot;
        let mut name = String::new();
        while let Some(c) = self.peek().filter(|c| is_name(*c)) {
            name.push(c);
            self.next();
        }
        if name.is_empty() {
            let found = self.peek().map_or("the end".into(), |c| format!("{c:?}"));
            return Err(spot.error(format!("a rule's name is expected, not {found}")));
        }
        self.skip();
        Ok(name)
    }

    fn number(&mut self, name: &str) -> usize {
        let next = self.names.len();
        *self.names.entry(name.into()).or_insert(next)
    }

    /// `::=`
    fn define(&mut self, spot: Spot) -> Result<(), Error> {
        for c in "::=".chars() {
            if self.next() != Some(c) {
                return Err(spot.error("`::=` is expected after a rule's name"));
            }
        }
        self.skip();
        Ok(())
    }

    /// Whether a new rule begins here.
    fn at_rule(&self) -> bool {
        let ahead = self.text[self.at..].iter().skip_while(|c| is_name(**c));
        ahead.copied().find(|c| !c.is_whitespace()) == Some(':')
    }

    fn choice(&mut self) -> Result<Node, Error> {
        self.depth += 1;
        if self.depth > limits::DEPTH {
            let text = format!("brackets are nested more than {} deep", limits::DEPTH);
            return Err(self.spot.too_large(text));
        }
        let mut branches = vec![self.sequence()?];
        while self.peek() == Some('|') {
            self.next();
            self.skip();
            branches.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Choice(branches),
        })
    }

    fn sequence(&mut self) -> Result<Node, Error> {
        let mut items = Vec::new();
        while let Some(c) = self.peek() {
            let spot = self.spot;
            let item = match c {
                '|' | ')' | ']' | '}' => break,
                '"' => self.text()?,
                '[' => self.class()?,
                '.' => {
                    self.next();
                    Node::Class(vec![('\0', char::MAX)])
                }
                '(' => {
                    self.next();
                    self.skip();
                    let inner = self.choice()?;
                    if self.next() != Some(')') {
                        return Err(spot.error("this bracket is not closed"));
                    }
                    inner
                }
                c if is_name(c) => {
                    if self.at_rule() {
                        break;
                    }
                    let name = self.name()?;
                    let rule = self.number(&name);
                    self.uses.push((rule, spot));
                    Node::Rule(rule)
                }
                c => return Err(spot.error(format!("{c:?} is not expected here"))),
            };
            self.skip();
            items.push(self.repeated(item)?);
        }
        Ok(match items.len() {
            1 => items.remove(0),
            _ => Node::Sequence(items),
        })
    }

    fn repeated(&mut self, mut node: Node) -> Result<Node, Error> {
        let mut times = 0;
        while let Some(c) = self.peek() {
            let spot = self.spot;
            let (least, most) = match c {
                '*' => (0, None),
                '+' => (1, None),
                '?' => (0, Some(1)),
                '{' => {
                    self.next();
                    self.skip();
                    let least = self.count()?;
                    let most = match self.peek() {
                        Some(',') => {
                            self.next();
                            self.skip();
                            match self.peek() {
                                Some('}') => None,
                                _ => Some(self.count()?),
                            }
                        }
                        _ => Some(least),
                    };
                    if self.peek() != Some('}') {
                        return Err(spot.error("a repetition is {n}, {n,} or {n,m}"));
                    }
                    if most.is_some_and(|most| most < least) {
                        return Err(spot.error(format!(
                            "a repetition from {least} to {} is empty",
                            most.unwrap_or_default()
                        )));
                    }
                    (least, most)
                }
                _ => break,
            };
            times += 1;
            if times > limits::REPEATED {
                let text = format!(
                    "more than {} repetitions follow one another",
                    limits::REPEATED
                );
                return Err(spot.too_large(text));
            }
            self.next();
            self.skip();
            node = Node::Repeat {
                node: Box::new(node),
                least,
                most,
            };
        }
        Ok(node)
    }

    fn count(&mut self) -> Result<u32, Error> {
        let (spot, mut digits) = (self.spot, String::new());
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            digits.push(c);
            self.next();
        }
        self.skip();
        match digits.parse::<u32>() {
            Ok(count) if count <= limits::REPETITIONS => Ok(count),
            _ => Err(spot.error(format!(
                "a repetition's count is a number up to {}",
                limits::REPETITIONS
            ))),
        }
    }

    fn text(&mut self) -> Result<Node, Error> {
        let spot = self.spot;
        self.next();
        let mut letters = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(spot.error("this text is not closed")),
                Some('"') => break,
                Some(_) => {
                    let c = self.character()?;
                    letters.push(Node::Class(vec![(c, c)]));
                }
            }
        }
        self.next();
        Ok(match letters.len() {
            1 => letters.remove(0),
            _ => Node::Sequence(letters),
        })
    }

    fn class(&mut self) -> Result<Node, Error> {
        let spot = self.spot;
        self.next();
        let negated = self.peek() == Some('^');
        if negated {
            self.next();
        }
        let mut ranges = Vec::new();
        while self.peek() != Some(']') {
            if self.peek().is_none() {
                return Err(spot.error("this class is not closed"));
            }
            let at = self.spot;
            let first = self.character()?;
            let mut last = first;
            let behind = self.text.get(self.at + 1);
            if self.peek() == Some('-') && behind.is_some_and(|c| *c != ']') {
                self.next();
                last = self.character()?;
                if last < first {
                    return Err(at.error(format!("the range {first:?}-{last:?} is backwards")));
                }
            }
            ranges.push((first, last));
        }
        self.next();
        let ranges = merged(ranges);
        let ranges = if negated { inverted(&ranges) } else { ranges };
        if ranges.is_empty() {
            return Err(spot.error("this class has no characters"));
        }
        Ok(Node::Class(ranges))
    }

    /// One character, perhaps escaped.
    fn character(&mut self) -> Result<char, Error> {
        let spot = self.spot;
        let c = self
            .next()
            .ok_or_else(|| spot.error("the text ends here"))?;
        if c != '\\' {
            return Ok(c);
        }
        let escape = self
            .next()
            .ok_or_else(|| spot.error("the text ends here"))?;
        let digits = match escape {
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            '\\' | '"' | '[' | ']' | '-' | '^' | '/' | '\'' => return Ok(escape),
            'x' => 2,
            'u' => 4,
            'U' => 8,
            other => return Err(spot.error(format!("\\{other} is not an escape"))),
        };
        let mut code = 0;
        for _ in 0..digits {
            let digit = self.next().and_then(|c| c.to_digit(16));
            let digit = digit.ok_or_else(|| {
                spot.error(format!("\\{escape} needs {digits} hexadecimal digits"))
            })?;
            code = code * 16 + digit;
        }
        char::from_u32(code).ok_or_else(|| spot.error(format!("U+{code:04X} is not a character")))
    }
}

/// In order, with ranges that overlap or touch made one.
pub fn merged(mut ranges: Vec<(char, char)>) -> Vec<(char, char)> {
    ranges.sort_unstable();
    let mut out: Vec<(char, char)> = Vec::new();
    for (first, last) in ranges {
        match out.last_mut() {
            Some(before) if first as u32 <= before.1 as u32 + 1 => before.1 = before.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

fn inverted(ranges: &[(char, char)]) -> Vec<(char, char)> {
    let (mut out, mut next) = (Vec::new(), Some('\0'));
    for (first, last) in ranges {
        if let (Some(from), Some(to)) = (next, before(*first)) {
            if from <= to {
                out.push((from, to));
            }
        }
        next = after(*last);
    }
    if let Some(from) = next {
        out.push((from, char::MAX));
    }
    out
}

fn before(c: char) -> Option<char> {
    match c {
        '\0' => None,
        '\u{E000}' => Some('\u{D7FF}'),
        c => char::from_u32(c as u32 - 1),
    }
}

fn after(c: char) -> Option<char> {
    match c {
        '\u{D7FF}' => Some('\u{E000}'),
        c => char::from_u32(c as u32 + 1),
    }
}
