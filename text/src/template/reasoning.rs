//! How the model marks its reasoning, found in what the template writes for it.
use super::call_grammar::text_rule;
use super::prefix::stand_in_text;
use super::probe::{cue, ASKED, OTHER, SAID};
use super::renderer::Renderer;
use super::specials::Specials;
use serde_json::{json, Value as Json};

/// Reasoning stands between these texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Reasoning {
    pub open: String,
    pub close: String,
    /// The text that the template writes between `close` and the answer, such as
    /// <|start|>assistant<|channel|>final<|message|>. It ends with a special token, or is empty.
    pub between: String,
    /// The cue has already opened it.
    pub begins_inside: bool,
}

impl Reasoning {
    /// Whether this cue has opened the reasoning.
    pub fn is_begun(&self, cue: &str) -> bool {
        match (cue.rfind(&self.open), cue.rfind(&self.close)) {
            (Some(opened), Some(closed)) => opened > closed,
            (Some(_), None) => true,
            _ => false,
        }
    }

    pub fn to_json(&self, specials: &Specials) -> Json {
        json!({
            "open": self.open,
            "close": self.close,
            "close_token": self.last_token(specials),
            "begins_inside": self.begins_inside,
            "rules": self.rules(specials, false),
            "rules_inside": self.rules(specials, true),
        })
    }

    /// The special token after which the answer begins.
    fn last_token(&self, specials: &Specials) -> Option<u32> {
        match specials.all(&self.between).last() {
            Some((_, _, id)) => Some(*id),
            None => specials.id(&self.close),
        }
    }

    /// Rules of a Lark grammar. `thoughts` is what the model writes before its answer, without `open` if the cue has
    /// written it.
    pub fn rules(&self, specials: &Specials, begins_inside: bool) -> String {
        let open = match begins_inside {
            true => String::new(),
            false => text_rule(&self.open, specials) + " ",
        };
        // The thoughts end at the mark. A special token cannot occur in text; any other mark ends the thoughts where it
        // first occurs.
        let (mark, rest) = match specials.find(&self.close, 0) {
            Some((start, ..)) => self.close.split_at(start),
            None => (self.close.as_str(), ""),
        };
        let attributes = match mark {
            "" => String::new(),
            mark => format!("[suffix={}]", Json::from(mark)),
        };
        let inner = format!("thoughts_text{attributes}: /(?s:.*)/");
        let mut parts = vec![
            format!("{open}thoughts_text"),
            text_rule(rest, specials),
            "THOUGHTS_SPACE".into(),
        ];
        if !self.between.is_empty() {
            parts.extend([text_rule(&self.between, specials), "THOUGHTS_SPACE".into()]);
        }
        let thoughts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!(
            "thoughts: {}\n{inner}\nTHOUGHTS_SPACE: /[ \\n\\r\\t]{{0,8}}/\n",
            thoughts.join(" ")
        )
    }
}

/// Pairs that families use, for templates that name them but write neither.
const KNOWN: &[(&str, &str)] = &[
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
];

pub fn reasoning(renderer: &Renderer, template: &str) -> Option<Reasoning> {
    let cue = cue(renderer).unwrap_or_default();
    let (open, close, between) = written(renderer, &cue).or_else(|| {
        let pair = KNOWN
            .iter()
            .find(|(open, close)| template.contains(open) || template.contains(close))?;
        Some((pair.0.to_string(), pair.1.to_string(), String::new()))
    })?;
    let mut found = Reasoning {
        open,
        close,
        between,
        begins_inside: false,
    };
    found.begins_inside = found.is_begun(&cue);
    Some(found)
}

/// The texts that a template puts around a message's reasoning, and the text that it writes before the answer.
fn written(renderer: &Renderer, cue: &str) -> Option<(String, String, String)> {
    let (asked, thought, said) = (
        stand_in_text(ASKED),
        stand_in_text(OTHER),
        stand_in_text(SAID),
    );
    ["reasoning_content", "thinking", "reasoning"]
        .iter()
        .find_map(|field| {
            let mut message = json!({"role": "assistant", "content": said});
            message[*field] = json!(thought);
            let messages = vec![json!({"role": "user", "content": asked}), message];
            let text = renderer.render_messages(&messages.into(), 0).ok()?;
            let (at, end) = (text.find(&thought)?, text.find(&said)?);
            let behind = text.get(at + thought.len()..end)?;
            let before = text.get(text.find(&asked)? + asked.len()..at)?;
            let cue = cue.trim_end();
            let open = match before.find(cue).filter(|_| !cue.is_empty()) {
                Some(found) => opening(&before[found + cue.len()..], renderer),
                None => last_mark(before, renderer),
            };
            // If nothing stands between the cue and the thought, the cue has opened it.
            let close = closing(behind, renderer)?;
            let between = before_answer(&behind.trim_start()[close.len()..], renderer);
            Some((open.or_else(|| last_mark(cue, renderer))?, close, between))
        })
}

/// All of what follows the cue: <think>, or <|channel|>analysis<|message|>.
fn opening(text: &str, renderer: &Renderer) -> Option<String> {
    let line = text.trim().rsplit('\n').next()?;
    let from = renderer
        .specials
        .find(line, 0)
        .map_or(line.find(['<', '[']), |(start, ..)| Some(start));
    Some(line[from.unwrap_or(0)..].to_string()).filter(|mark| !mark.is_empty())
}

/// The last special token, or tag, or line.
fn last_mark(text: &str, renderer: &Renderer) -> Option<String> {
    let line = text.trim().rsplit('\n').next()?;
    let from = match renderer.specials.all(line).last() {
        Some((start, end, _)) if *end == line.len() => *start,
        _ => line.rfind(['<', '[']).unwrap_or(0),
    };
    Some(line[from..].to_string()).filter(|mark| !mark.is_empty())
}

/// The text up to the end of the first special token or tag.
fn closing(text: &str, renderer: &Renderer) -> Option<String> {
    let line = text.trim().split('\n').next()?;
    let end = match renderer.specials.find(line, 0) {
        Some((0, end, _)) => end,
        _ => line.find(['>', ']']).map_or(line.len(), |at| at + 1),
    };
    Some(line[..end].to_string()).filter(|mark| !mark.is_empty())
}

/// The text before the answer, if it ends with a special token: no text of the answer can be mistaken for it.
fn before_answer(text: &str, renderer: &Renderer) -> String {
    let text = text.trim();
    match renderer.specials.all(text).last() {
        Some((_, end, _)) if *end == text.len() => text.into(),
        _ => String::new(),
    }
}
