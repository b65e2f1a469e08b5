//! Expressions that the crate writes with JSON's quotes and escapes.
//!
//! Where a class of characters has all control characters, the crate takes `\"` and `\\` for members of the class as well,
//! also if it is `[^"]`. Where one control character is missing, it writes each of them by itself and is exact. So such a
//! class loses U+0000.
use crate::grammar::{limits, Budget, Error, ErrorKind, Place};
use llguidance::regex_to_lark;
use regex_syntax::hir::print::Printer;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
};
use std::fmt;

/// The expression with classes that the crate quotes exactly. A class has a short name and may be long when it is written
/// out.
pub fn exact(pattern: &str, here: &str, budget: &Budget) -> Result<String, Error> {
    let Ok(parsed) = regex_syntax::parse(&regex_to_lark(pattern, "dw")) else {
        return Ok(pattern.into()); // it was checked
    };
    let mut changed = false;
    let made = narrowed(parsed, &mut changed);
    if !changed {
        return Ok(pattern.into());
    }
    let mut text = Limited(String::new());
    if Printer::new().print(&made, &mut text).is_err() {
        let error = Error::new(ErrorKind::TooLarge, "the regular expression is too long");
        return Err(error.at(Place::Pointer(here.into())));
    }
    budget.spend(text.0.len() / 16)?;
    Ok(text.0)
}

/// A text that does not become longer than a limit.
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.0.len() + more.len() > limits::LARK_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(more);
        Ok(())
    }
}

fn narrowed(part: Hir, changed: &mut bool) -> Hir {
    match part.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Class(class) => Hir::class(narrowed_class(class, changed)),
        HirKind::Capture(capture) => narrowed(*capture.sub, changed),
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(narrowed(*repetition.sub, changed));
            Hir::repetition(repetition)
        }
        HirKind::Concat(parts) => Hir::concat(all(parts, changed)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts, changed)),
    }
}

fn all(parts: Vec<Hir>, changed: &mut bool) -> Vec<Hir> {
    parts
        .into_iter()
        .map(|part| narrowed(part, changed))
        .collect()
}

fn narrowed_class(mut class: Class, changed: &mut bool) -> Class {
    let has = |character: char| match &class {
        Class::Unicode(class) => {
            let mut ranges = class.ranges().iter();
            ranges.any(|range| (range.start()..=range.end()).contains(&character))
        }
        Class::Bytes(class) => {
            let mut ranges = class.ranges().iter();
            ranges.any(|range| (range.start()..=range.end()).contains(&(character as u8)))
        }
    };
    let mut controls = ('\0'..' ').filter(|c| *c != '\n');
    if !controls.all(has) || has('"') && has('\\') {
        return class;
    }
    *changed = true;
    match &mut class {
        Class::Unicode(class) => {
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\0')]));
        }
        Class::Bytes(class) => class.difference(&ClassBytes::new([ClassBytesRange::new(0, 0)])),
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(pattern: &str) -> String {
        exact(pattern, "", &Budget::default()).unwrap()
    }

    #[test]
    fn only_classes_that_the_crate_widens_are_changed() {
        for same in ["[^a]", "[a\"]", "^\\W+$", "[^\"\\x00]", "[^\"\\s]", ".\\S"] {
            assert_eq!(made(same), same);
        }
        let written = "(?:\\A(?:[\u{1}-!\\#-\\[\\]-\u{10ffff}]|(?:ab))+\\z)";
        assert_eq!(made("^([^\"\\\\]|ab)+$"), written);
        assert!(!made("[\\x00-\\x1f]").contains('\0'));
    }

    #[test]
    fn long_expressions_are_refused() {
        let long = "\\P{P}".repeat(5_000);
        let error = exact(&long, "/pattern", &Budget::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge);
    }
}
