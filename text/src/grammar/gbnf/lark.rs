//! Rules, cut into lexemes, as a Lark grammar.
use super::lexemes::{cut, is_nullable, Part};
use super::parse::Node;
use super::rules::Rules;
use crate::grammar::{limits, Budget, Error, ErrorKind};
use std::fmt::Write;

pub fn write(rules: &Rules, budget: &Budget) -> Result<String, Error> {
    let cut = cut(rules, budget)?;
    let mut out = String::new();
    let nullable: Vec<bool> = cut.lexemes.iter().map(is_nullable).collect();
    for (rule, body) in cut.bodies.iter().enumerate() {
        let Some(body) = body else { continue };
        let _ = writeln!(out, "{}: {}", name(rule), written(body, &nullable));
        check_size(&out)?;
    }
    for (number, lexeme) in cut.lexemes.iter().enumerate() {
        let mut regex = String::new();
        push_regex(lexeme, &mut regex);
        // A lexeme is never empty; where it may be, the rules leave it out.
        let some = if nullable[number] { " & /(?s:.+)/" } else { "" };
        if regex.is_empty() {
            regex.push_str("()");
        }
        let _ = writeln!(out, "L{number}: /{regex}/{some}");
        check_size(&out)?;
    }
    Ok(out)
}

fn check_size(lark: &str) -> Result<(), Error> {
    if lark.len() <= limits::LARK_BYTES {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::TooLarge,
        format!(
            "the grammar is larger than {} bytes as Lark",
            limits::LARK_BYTES
        ),
    ))
}

fn name(rule: usize) -> String {
    match rule {
        0 => "start".into(),
        other => format!("r{other}"),
    }
}

fn written(part: &Part, nullable: &[bool]) -> String {
    let all = |parts: &[Part], between: &str| {
        let texts: Vec<String> = parts.iter().map(|part| written(part, nullable)).collect();
        texts.join(between)
    };
    match part {
        Part::Lexeme(lexeme) if nullable[*lexeme] => format!("L{lexeme}?"),
        Part::Lexeme(lexeme) => format!("L{lexeme}"),
        Part::Rule(rule) => name(*rule),
        Part::Sequence(parts) if parts.is_empty() => "\"\"".into(),
        Part::Sequence(parts) => format!("({})", all(parts, " ")),
        Part::Choice(parts) => format!("({})", all(parts, " | ")),
        Part::Repeat { part, least, most } => {
            let one = format!("({})", written(part, nullable));
            match (least, most) {
                (0, None) => format!("{one}*"),
                (1, None) => format!("{one}+"),
                (0, Some(1)) => format!("{one}?"),
                (_, Some(0)) => "\"\"".into(),
                (least, None) => format!("({one}~{least} {one}*)"),
                (least, Some(most)) => format!("({one}~{least}..{most})"),
            }
        }
    }
}

fn push_regex(node: &Node, out: &mut String) {
    match node {
        Node::Class(ranges) => {
            out.push('[');
            for (first, last) in ranges {
                push_character(*first, out);
                if first != last {
                    out.push('-');
                    push_character(*last, out);
                }
            }
            out.push(']');
        }
        Node::Sequence(nodes) => nodes.iter().for_each(|node| match node {
            Node::Choice(_) => push_group(node, out),
            node => push_regex(node, out),
        }),
        Node::Choice(nodes) => {
            for (i, node) in nodes.iter().enumerate() {
                if i > 0 {
                    out.push('|');
                }
                push_regex(node, out);
            }
        }
        Node::Repeat { node, least, most } => {
            push_group(node, out);
            let _ = match (least, most) {
                (0, None) => write!(out, "*"),
                (1, None) => write!(out, "+"),
                (least, None) => write!(out, "{{{least},}}"),
                (least, Some(most)) => write!(out, "{{{least},{most}}}"),
            };
        }
        Node::Rule(_) => unreachable!("lexemes mention no rules"),
    }
}

fn push_group(node: &Node, out: &mut String) {
    out.push_str("(?:");
    push_regex(node, out);
    out.push(')');
}

fn push_character(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", c as u32);
    }
}
