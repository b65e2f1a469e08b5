//! GBNF, the grammars of llama.cpp (`root ::= "a" | [0-9]+`), translated to Lark.
//!
//! GBNF has no lexer: its grammars describe sequences of characters. Lark has one, which takes the longest match and
//! never looks back. So the translation makes lexemes of single characters, which is always exact, and of longer pieces
//! only where the longest match cannot be the wrong one (`lexemes.rs`). A grammar without recursion becomes one regular
//! expression.
mod lark;
mod lexemes;
mod parse;
mod rules;

use super::{Budget, Error};

/// Whether a text is GBNF and not Lark: `::=` stands outside of texts, classes and comments.
pub fn is_gbnf(text: &str) -> bool {
    text.lines().any(|line| {
        let name = line.trim_start();
        let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_".contains(c));
        rest.len() < name.len() && rest.trim_start().starts_with("::=")
    })
}

pub fn to_lark(text: &str, budget: &Budget) -> Result<String, Error> {
    let rules = rules::Rules::new(parse::parse(text)?, budget)?;
    lark::write(&rules, budget)
}
