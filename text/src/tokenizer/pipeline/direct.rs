//! Finds, normalises and cuts on borrowed text, piece by piece.
use super::cut::Cuts;
use super::normal::Normals;
use super::{AddedTokens, Part};
use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

pub struct Direct {
    /// Each one searches the text that the one before it left.
    finders: Vec<Finder>,
    normals: Normals,
    cuts: Cuts,
}

struct Finder {
    automaton: AhoCorasick,
    tokens: Vec<Found>,
}

#[derive(Clone, Copy)]
struct Found {
    id: u32,
    special: bool,
    /// Whether it takes the white space in front of it, and after it.
    lstrip: bool,
    rstrip: bool,
}

impl Direct {
    /// None if there is a step that only the crate can run.
    pub fn new(
        added: &AddedTokens,
        normalizer: Option<&NormalizerWrapper>,
        pre_tokenizer: Option<&PreTokenizerWrapper>,
    ) -> Result<Option<Direct>, String> {
        let (Some(normals), Some(cuts)) = (Normals::of(normalizer), Cuts::of(pre_tokenizer)) else {
            return Ok(None);
        };
        let words = added.tokens.iter().any(|t| t.1.single_word);
        let normalized = added.tokens.iter().any(|t| t.1.normalized);
        if words || (normalized && !normals.is_empty()) {
            return Ok(None);
        }
        let mut finders = vec![];
        for normalized in [false, true] {
            finders.extend(Finder::new(added, normalized)?);
        }
        Ok(Some(Direct {
            finders,
            normals,
            cuts,
        }))
    }

    pub fn run(
        &self,
        text: &str,
        plain: bool,
        take: &mut impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut spelled = String::new();
        find(&self.finders, text, plain, &mut |part| match part {
            Part::Token(_) => take(part),
            Part::Text(text) => {
                let text = self.normals.apply(text);
                self.cuts
                    .run(&text, &mut spelled, &mut |piece| take(Part::Text(piece)))
            }
        })
    }
}

impl Finder {
    /// None when there is nothing to find.
    fn new(added: &AddedTokens, normalized: bool) -> Result<Option<Finder>, String> {
        let all = added.tokens.iter().filter(|t| t.1.normalized == normalized);
        let tokens: Vec<Found> = all
            .clone()
            .map(|(id, token)| Found {
                id: *id,
                special: token.special,
                lstrip: token.lstrip,
                rstrip: token.rstrip,
            })
            .collect();
        if tokens.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(all.map(|t| &t.1.content))
            .map_err(|e| format!("its special tokens are too many: {e}"))?;
        Ok(Some(Finder { automaton, tokens }))
    }
}

fn find(
    finders: &[Finder],
    text: &str,
    plain: bool,
    take: &mut dyn FnMut(Part) -> Result<(), String>,
) -> Result<(), String> {
    let Some((finder, rest)) = finders.split_first() else {
        return match text {
            "" => Ok(()),
            text => take(Part::Text(text)),
        };
    };
    let mut done = 0;
    for found in finder.automaton.find_iter(text) {
        let token = finder.tokens[found.pattern()];
        if found.start() < done || (plain && token.special) {
            continue;
        }
        let (mut start, mut end) = (found.start(), found.end());
        if token.lstrip {
            start = done + text[done..start].trim_end().len();
        }
        if token.rstrip {
            end = text.len() - text[end..].trim_start().len();
        }
        find(rest, &text[done..start], plain, take)?;
        take(Part::Token(token.id))?;
        done = end;
    }
    find(rest, &text[done..], plain, take)
}
