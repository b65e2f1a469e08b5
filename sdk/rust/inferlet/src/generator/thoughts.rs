//! How a model marks its reasoning, as far as a grammar has to know: a document that thoughts may precede.
//!
//! The engine's decoder of reasoning knows the marks. It is asked which of the usual ones it takes.

use crate::model::Model;
use crate::reasoning::{Decoder, Event};
use crate::Result;

const PAIRS: [(&str, &str); 8] = [
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
];

/// The marks of a model's reasoning. A mark that is a special token has an id.
pub(super) struct Thoughts {
    open: (&'static str, Option<u32>),
    close: (&'static str, Option<u32>),
    /// The model's turn begins inside of its thoughts.
    pub begun: bool,
}

impl Thoughts {
    /// None if the model has no marks, or unusual ones.
    pub fn of(model: &Model) -> Result<Option<Thoughts>> {
        let tokenizer = model.tokenizer();
        let (ids, names) = tokenizer.special_tokens();
        let special = |mark: &'static str| {
            let found = names.iter().position(|name| name == mark.as_bytes());
            (mark, found.map(|index| ids[index]))
        };
        let tokens_of = |(mark, id): (&str, Option<u32>)| {
            id.map_or_else(|| tokenizer.encode(mark), |id| vec![id])
        };
        let inner = tokenizer.encode("a");
        let begun = Decoder::new(model).feed(&inner)? == Event::Start;
        for (open, close) in PAIRS {
            let (open, close) = (special(open), special(close));
            let whole = [tokens_of(open), inner.clone(), tokens_of(close)].concat();
            if let Event::End(_) = Decoder::new(model).feed(&whole)? {
                return Ok(Some(Thoughts { open, close, begun }));
            }
        }
        Ok(None)
    }

    /// The Lark grammar of a document of this JSON Schema, after thoughts if there are any.
    pub fn grammar(&self, schema: &str) -> String {
        let mark = |(text, id): (&str, Option<u32>)| {
            id.map_or_else(|| serde_json::Value::from(text).to_string(), |id| format!("<[{id}]>"))
        };
        let (open, close) = (mark(self.open), mark(self.close));
        let rest = match self.close.1 {
            None => format!("rest[suffix={close}]: /(?s:.*)/"),
            Some(_) => format!("rest: /(?s:.*)/ {close}"),
        };
        let thoughts = match self.begun {
            true => "rest SPACE".to_string(),
            false => format!("({open} rest SPACE)?"),
        };
        format!(
            "start: {thoughts} document\n{rest}\nSPACE: /[ \\n\\r\\t]{{0,8}}/\ndocument: %json {schema}\n"
        )
    }

    /// The text after the thoughts.
    pub fn document(&self, model: &Model, tokens: &[u32]) -> Result<String> {
        if let Some(id) = self.close.1 {
            let end = tokens.iter().position(|token| *token == id).map_or(0, |index| index + 1);
            return model.tokenizer().decode_with(&tokens[end..], true);
        }
        let text = model.tokenizer().decode_with(tokens, true)?;
        if self.begun || text.starts_with(self.open.0) {
            return Ok(text.split_once(self.close.0).map_or("", |parts| parts.1).to_string());
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_texts_or_tokens() {
        let texts = Thoughts { open: ("<t>", None), close: ("</t>", None), begun: false };
        assert_eq!(
            texts.grammar("{}"),
            "start: (\"<t>\" rest SPACE)? document\nrest[suffix=\"</t>\"]: /(?s:.*)/\n\
             SPACE: /[ \\n\\r\\t]{0,8}/\ndocument: %json {}\n"
        );
        let tokens = Thoughts { open: ("<t>", Some(7)), close: ("</t>", Some(8)), begun: true };
        assert!(tokens
            .grammar("{}")
            .starts_with("start: rest SPACE document\nrest: /(?s:.*)/ <[8]>\n"));
    }
}
