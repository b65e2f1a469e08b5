//! The characters that mark places in a rendering, and how content that holds such characters is kept apart from them.
//!
//! Marks are noncharacters: almost no text has them. Where a turn's content does have one, the [`Disguise`] replaces it by
//! a character that occurs nowhere in the content, and puts it back before the text becomes tokens.
use super::turns::Turn;
use std::borrow::Cow;
use std::collections::HashSet;

/// Breaks special tokens' names in content; see `specials.rs`.
pub const GUARD: char = '\u{FDD0}';
/// The mark after the content of the last turn.
pub const END: char = '\u{FDD1}';
/// Begins and ends the text that stands in for unknown content.
pub const STAND_IN: char = '\u{FDD2}';

fn is_mark(c: char) -> bool {
    matches!(c, GUARD | END | STAND_IN)
}

/// Replaces the marks that content holds. It does nothing when the content holds none.
#[derive(Default)]
pub struct Disguise {
    /// A mark, and the character that replaces it.
    pairs: Vec<(char, char)>,
}

impl Disguise {
    /// Fails if the content of `turns` holds a mark and also every character that could replace it: that takes more
    /// than 130,000 different ones.
    pub fn of(turns: &[Turn]) -> Result<Disguise, String> {
        let mut has_marks = false;
        for turn in turns {
            turn.for_each_text(&mut |text| has_marks |= text.contains(is_mark));
        }
        if !has_marks {
            return Ok(Disguise::default());
        }
        let mut used = HashSet::new();
        for turn in turns {
            turn.for_each_text(&mut |text| used.extend(text.chars().filter(|c| *c > STAND_IN)));
        }
        // The other noncharacters of the block, then the planes of private use.
        let mut free = ('\u{FDD3}'..='\u{FDEF}')
            .chain('\u{F0000}'..='\u{10FFFF}')
            .filter(|c| !used.contains(c));
        let mut pairs = Vec::new();
        for mark in [GUARD, END, STAND_IN] {
            let substitute = free.next().ok_or(
                "the turns hold every character that Pie could use to mark places in them; \
                 leave out U+FDD0 to U+FDD2",
            )?;
            pairs.push((mark, substitute));
        }
        Ok(Disguise { pairs })
    }

    pub fn apply<'a>(&self, turns: &'a [Turn]) -> Cow<'a, [Turn]> {
        if self.pairs.is_empty() {
            return turns.into();
        }
        let with = |text: &str| self.replaced(text, |pair| pair);
        let disguised: Vec<Turn> = turns.iter().map(|turn| turn.map_texts(&with)).collect();
        disguised.into()
    }

    /// The text as the turns' authors wrote it.
    pub fn undo<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.pairs.is_empty() {
            return text.into();
        }
        self.replaced(text, |(mark, substitute)| (substitute, mark))
            .into()
    }

    fn replaced(&self, text: &str, direction: impl Fn((char, char)) -> (char, char)) -> String {
        let replace = |c: char| {
            let found = self.pairs.iter().map(|pair| direction(*pair));
            found
                .into_iter()
                .find(|(from, _)| *from == c)
                .map_or(c, |(_, to)| to)
        };
        text.chars().map(replace).collect()
    }
}
