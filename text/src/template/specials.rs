//! Special tokens in text, and keeping them out of what people write.
//!
//! Before a template is rendered, every special token's name inside a turn's content is broken by a mark, a character that
//! occurs nowhere else; so are a beginning or an end of such a name at the edges of the content, where the template's own
//! text could complete it. What is found in the rendered text is then the template's own. Content without such names is
//! rendered as it is.
use super::marks::Disguise;
use crate::tokenizer::Tokenizer;
use std::collections::{HashMap, HashSet};

/// Turns rendered text into tokens.
pub struct Encoder<'a> {
    pub tokenizer: &'a Tokenizer,
    pub disguise: &'a Disguise,
}

impl Encoder<'_> {
    /// Names of special tokens become those tokens.
    fn template(&self, text: &str) -> Result<Vec<u32>, String> {
        self.tokenizer.encode_template(&self.disguise.undo(text))
    }

    /// Names of special tokens are text.
    fn plain(&self, text: &str) -> Result<Vec<u32>, String> {
        self.tokenizer.encode_plain(&self.disguise.undo(text))
    }
}

pub struct Specials {
    ids: HashMap<String, u32>,
    lengths: Vec<usize>, // longest first
    first_bytes: [bool; 256],
    heads: HashSet<String>, // proper beginnings of names
    tails: HashSet<String>,
}

impl Specials {
    pub fn new(list: &[(u32, String)]) -> Self {
        let ids: HashMap<String, u32> = list
            .iter()
            .filter(|(_, name)| !name.is_empty())
            .map(|(id, name)| (name.clone(), *id))
            .collect();
        let mut lengths: Vec<usize> = ids.keys().map(String::len).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let mut first_bytes = [false; 256];
        let (mut heads, mut tails) = (HashSet::new(), HashSet::new());
        for name in ids.keys() {
            first_bytes[name.as_bytes()[0] as usize] = true;
            for (at, _) in name.char_indices().skip(1) {
                heads.insert(name[..at].to_string());
                tails.insert(name[at..].to_string());
            }
        }
        Specials {
            ids,
            lengths,
            first_bytes,
            heads,
            tails,
        }
    }

    pub fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The special token at the beginning of `text`: its length and id.
    pub fn at_start(&self, text: &str) -> Option<(usize, u32)> {
        if !self.first_bytes[*text.as_bytes().first()? as usize] {
            return None;
        }
        self.lengths.iter().find_map(|&len| {
            let name = text.get(..len)?;
            self.id(name).map(|id| (len, id))
        })
    }

    /// Where the next one is: its range and id.
    pub fn find(&self, text: &str, from: usize) -> Option<(usize, usize, u32)> {
        let bytes = text.as_bytes();
        (from..bytes.len()).find_map(|at| {
            if !self.first_bytes[bytes[at] as usize] || !text.is_char_boundary(at) {
                return None;
            }
            self.at_start(&text[at..])
                .map(|(len, id)| (at, at + len, id))
        })
    }

    /// All of them, in order.
    pub fn all(&self, text: &str) -> Vec<(usize, usize, u32)> {
        let (mut found, mut from) = (Vec::new(), 0);
        while let Some(next) = self.find(text, from) {
            from = next.1;
            found.push(next);
        }
        found
    }

    /// `text` with every name in it broken by `mark`.
    pub fn guard(&self, text: &str, mark: char) -> String {
        // Templates trim content, so an edge is where the space ends.
        let (start, end) = (text.len() - text.trim_start().len(), text.trim_end().len());
        let edges = [
            (start, self.edge(text.trim(), true)),
            (end, self.edge(text.trim(), false)),
        ];
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        // Names can overlap: go on after the first character of each.
        let inside = std::iter::successors(self.find(text, 0), |(at, ..)| {
            self.find(text, at + first_len(&text[*at..]))
        });
        let mut marks: Vec<usize> = inside.map(|(at, ..)| at + first_len(&text[at..])).collect();
        marks.extend(
            edges
                .iter()
                .filter(|(_, is_edge)| *is_edge)
                .map(|(at, _)| at),
        );
        marks.sort_unstable();
        for at in marks {
            out.push_str(&text[from..at]);
            out.push(mark);
            from = at;
        }
        out.push_str(&text[from..]);
        out
    }

    /// Whether `text` begins with the end of a name, or ends with the beginning of one.
    fn edge(&self, text: &str, start: bool) -> bool {
        let longest = self
            .lengths
            .first()
            .map_or(0, |&len| len.min(text.len() + 1));
        (1..longest).any(|len| {
            if start {
                text.get(..len)
                    .is_some_and(|part| self.tails.contains(part))
            } else {
                text.get(text.len() - len..)
                    .is_some_and(|part| self.heads.contains(part))
            }
        })
    }

    /// Tokens of a rendered text in which `mark` breaks what is not to become a special token.
    pub fn encode(&self, text: &str, mark: char, encoder: &Encoder) -> Result<Vec<u32>, String> {
        if !text.contains(mark) {
            return encoder.template(text);
        }
        let own = self.all(text);
        let clean = text.replace(mark, "");
        let ids = |list: &[(usize, usize, u32)]| list.iter().map(|s| s.2).collect::<Vec<_>>();
        if ids(&self.all(&clean)) == ids(&own) {
            return encoder.template(&clean); // no mark broke a name
        }
        // Stretches that end with the template's own special tokens; those without a mark are encoded as usual.
        let (mut tokens, mut open, mut run) = (Vec::new(), 0, 0);
        for (start, end, id) in own.into_iter().chain([(text.len(), text.len(), u32::MAX)]) {
            if text[run..start].contains(mark) {
                tokens.extend(encoder.template(&text[open..run])?);
                let mut plain = text[run..start].replace(mark, "");
                if run > open && strips(&text[..run], self, encoder)? {
                    plain = plain.trim_start().to_string();
                }
                tokens.extend(encoder.plain(&plain)?);
                if end > start {
                    tokens.push(id);
                }
                open = end;
            }
            run = end;
        }
        tokens.extend(encoder.template(&text[open..])?);
        Ok(tokens)
    }
}

fn first_len(text: &str) -> usize {
    text.chars().next().map_or(1, char::len_utf8)
}

/// Whether the special token that `text` ends with swallows the space after it (as Phi-3's do).
fn strips(text: &str, specials: &Specials, encoder: &Encoder) -> Result<bool, String> {
    match specials.all(text).last() {
        Some(&(start, end, _)) if end == text.len() => {
            let name = &text[start..end];
            Ok(encoder.template(&format!("{name} \n"))?.len() == 1)
        }
        _ => Ok(false),
    }
}
