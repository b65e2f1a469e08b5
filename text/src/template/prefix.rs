//! Finds the part of a rendering that is certain once some turns are known, whatever turns come next.
//!
//! A template renders whole conversations. To add turns to a context piece by piece, the text of some turns must be a
//! prefix of the text of all their continuations. So the turns are rendered with several continuations: with nothing
//! after them, with a cue, with the turns that usually follow. What these have in common, up to the end of the last turn,
//! is certain. (A template may treat the end of a conversation specially: Phi-3 writes an end-of-text token there, gpt-oss
//! another closing token, Qwen3 an empty thought. That is not part of it.)
use super::marks::{END, STAND_IN};
use super::renderer::Renderer;
use super::specials::Specials;
use super::turns::{Call, Turn, TurnKind};
use serde_json::Value as Json;

/// A stand-in for a turn that is not known. `n` tells stand-ins apart.
pub fn stand_in(kind: TurnKind, n: usize) -> Turn {
    let text = stand_in_text(n);
    match kind {
        TurnKind::System => Turn::System(text),
        TurnKind::User => Turn::User(text),
        TurnKind::Assistant | TurnKind::Cue => Turn::Assistant(text),
        TurnKind::Tools => Turn::Tools(vec![stand_in_tool(&text)]),
        TurnKind::Answer => Turn::Answer {
            name: "tool".into(),
            id: String::new(),
            value: text,
        },
    }
}

pub fn stand_in_text(n: usize) -> String {
    format!("{STAND_IN}known{n}{STAND_IN}")
}

pub fn stand_in_tool(name: &str) -> Json {
    serde_json::json!({"type": "function", "function": {
        "name": name,
        "description": "What it does.",
        "parameters": {"type": "object", "properties": {"value": {"type": "string", "description": "What it takes."}},
                       "required": ["value"]}}})
}

/// The continuation in a trial rendering.
const NEXT: usize = usize::MAX;

struct Trial {
    text: String,
    /// The position at which the text after a turn begins to depend on the next turn, or the end.
    limit: usize,
    /// Where the content of the last known turn ends.
    content: usize,
    /// Nothing follows.
    ends: bool,
    /// An answer follows, perhaps in the same turn.
    answers: bool,
    kept: usize,
}

/// The text of `turns` that all continuations share. With `closed`, tool answers are complete: none follows in their turn.
/// `answered` are calls whose answers come next for sure.
pub fn certain(
    renderer: &Renderer,
    turns: &[Turn],
    closed: bool,
    answered: &[Call],
) -> Result<String, String> {
    let Some(last) = turns.last() else {
        return Ok(String::new());
    };
    if *last == Turn::Cue {
        return renderer.render(turns);
    }
    let turns = &renderer.guarded(turns)[..];
    let marked = marked(turns);
    let followers = followers(last.kind(), closed, answered);
    let mut first_error = None;
    let mut trials = Vec::new();
    for follower in &followers {
        let all: Vec<Turn> = marked
            .iter()
            .cloned()
            .chain(follower.iter().cloned())
            .collect();
        match renderer.render(&all) {
            Ok(text) => trials.extend(trial(text, &marked, follower)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    if let Some(text) = choose(&trials, &renderer.specials) {
        let text = text.replace(END, "");
        if is_faithful(renderer, turns, &followers, &text) {
            return Ok(text);
        }
    }
    // The content itself changes what the template does: take it as it is.
    match renderer.render(turns) {
        Ok(text) => Ok(text),
        Err(error) => Err(first_error.unwrap_or(error)),
    }
}

/// Whether the mark after the content changed nothing else.
fn is_faithful(renderer: &Renderer, turns: &[Turn], followers: &[Vec<Turn>], text: &str) -> bool {
    followers.iter().any(|follower| {
        let all: Vec<Turn> = turns
            .iter()
            .cloned()
            .chain(follower.iter().cloned())
            .collect();
        renderer
            .render(&all)
            .is_ok_and(|whole| whole.starts_with(text))
    })
}

/// `turns` with END after the content of the last one, before its trailing space, which templates like to trim.
fn marked(turns: &[Turn]) -> Vec<Turn> {
    let mark = |text: &str| {
        let kept = text.trim_end().len();
        format!("{}{END}{}", &text[..kept], &text[kept..])
    };
    let mut turns = turns.to_vec();
    let tools_last = matches!(turns.last(), Some(Turn::Tools(_)));
    // Mistral writes the system text after the tools, although the tools came later.
    if let Some(Turn::System(text)) = turns
        .iter_mut()
        .filter(|_| tools_last)
        .rfind(|t| t.kind() == TurnKind::System)
    {
        *text = mark(text);
    }
    match turns.last_mut() {
        Some(Turn::System(text) | Turn::User(text) | Turn::Assistant(text)) => *text = mark(text),
        Some(Turn::Answer { value, .. }) => *value = mark(value),
        Some(Turn::Calls { calls, .. }) => {
            if let Some(call) = calls.last_mut() {
                if !mark_last(&mut call.arguments, &mark) {
                    call.name = mark(&call.name);
                }
            }
        }
        Some(Turn::Tools(tools)) => {
            if let Some(tool) = tools.last_mut() {
                let name = mark(tool["function"]["name"].as_str().unwrap_or_default());
                tool["function"]["name"] = name.into();
            }
        }
        _ => {}
    }
    turns
}

/// Marks the last text among the values of `json`. Returns whether there is one.
fn mark_last(json: &mut Json, mark: &dyn Fn(&str) -> String) -> bool {
    match json {
        Json::String(text) => {
            *text = mark(text);
            true
        }
        Json::Array(items) => items.iter_mut().rev().any(|item| mark_last(item, mark)),
        Json::Object(entries) => entries
            .iter_mut()
            .rev()
            .any(|(_, value)| mark_last(value, mark)),
        _ => false,
    }
}

fn followers(last: TurnKind, closed: bool, answered: &[Call]) -> Vec<Vec<Turn>> {
    let next = |kind| vec![stand_in(kind, NEXT)];
    if !answered.is_empty() {
        let answer = |call: &Call| Turn::Answer {
            name: call.name.clone(),
            id: call.id.clone(),
            value: stand_in_text(NEXT),
        };
        return vec![answered.iter().map(answer).collect(), vec![]];
    }
    match last {
        TurnKind::System | TurnKind::Tools => vec![next(TurnKind::User), vec![]],
        TurnKind::User => vec![next(TurnKind::Assistant), vec![Turn::Cue], vec![]],
        TurnKind::Answer if closed => vec![next(TurnKind::Assistant), vec![Turn::Cue], vec![]],
        TurnKind::Answer => vec![
            next(TurnKind::Assistant),
            vec![Turn::Cue],
            next(TurnKind::Answer),
            vec![],
        ],
        TurnKind::Assistant | TurnKind::Cue => vec![next(TurnKind::User), vec![Turn::Cue], vec![]],
    }
}

/// How many of the turns' texts are in `text`. A template may drop some in some places (Mistral moves the system text).
fn kept(turns: &[Turn], text: &str) -> usize {
    let said = |turn: &Turn| match turn {
        Turn::System(said) | Turn::User(said) | Turn::Assistant(said) => text.contains(said.trim()),
        _ => false,
    };
    turns.iter().filter(|turn| said(turn)).count()
}

/// None if the template lost the last turn, or what follows.
fn trial(text: String, turns: &[Turn], follower: &[Turn]) -> Option<Trial> {
    let limit = match follower.first() {
        None | Some(Turn::Cue) => text.len(),
        Some(_) => text.find(&stand_in_text(NEXT))?,
    };
    let content = text[..limit].rfind(END)? + END.len_utf8();
    let kept = kept(turns, &text);
    let answers = follower
        .first()
        .is_some_and(|turn| turn.kind() == TurnKind::Answer);
    Some(Trial {
        limit,
        content,
        ends: follower.is_empty(),
        answers,
        kept,
        text,
    })
}

/// `trials` are in the order of how usual they are; the first that keeps most of what was said is followed.
fn choose<'a>(trials: &'a [Trial], specials: &Specials) -> Option<&'a str> {
    let most = trials.iter().map(|trial| trial.kept).max()?;
    let base = trials.iter().find(|trial| trial.kept == most)?;
    let (mut cut, mut natural) = (base.limit, base.ends);
    // The bare end first: it tells best where the turn is over.
    for other in trials
        .iter()
        .filter(|t| t.ends)
        .chain(trials.iter().filter(|t| !t.ends))
    {
        if other.content != base.content
            || other.text.as_bytes()[..other.content] != base.text.as_bytes()[..base.content]
        {
            continue; // this trial has another history, so it says nothing about ours
        }
        if other.limit >= cut && other.text.as_bytes()[..cut] == base.text.as_bytes()[..cut] {
            continue;
        }
        let common = common(base, other, specials);
        if common > base.content || other.limit == common || other.answers {
            cut = cut.min(common);
            natural |= other.ends;
        }
    }
    if !natural {
        cut = cut.min(first_close(
            &base.text[..base.limit],
            base.content,
            specials,
        ));
    }
    Some(&base.text[..cut])
}

/// Up to where two texts agree in whole pieces: special tokens, and runs of text between them.
fn common(a: &Trial, b: &Trial, specials: &Specials) -> usize {
    let (a_text, b_text) = (&a.text[..a.limit], &b.text[..b.limit]);
    let mut at = a_text
        .bytes()
        .zip(b_text.bytes())
        .take_while(|(x, y)| x == y)
        .count();
    if at == a_text.len() || at == b_text.len() {
        return at;
    }
    while !a_text.is_char_boundary(at) {
        at -= 1;
    }
    let from = a.content.min(at);
    let (a_list, b_list) = (specials.all(&a_text[from..]), specials.all(&b_text[from..]));
    for list in [&a_list, &b_list] {
        if let Some((start, ..)) = list
            .iter()
            .find(|(start, end, _)| start + from < at && at < end + from)
        {
            at = start + from; // inside a special token
        }
    }
    let run_ends = |list: &[(usize, usize, u32)]| list.iter().any(|(start, ..)| start + from == at);
    if run_ends(&a_list) || run_ends(&b_list) {
        return at;
    }
    // Inside a run in both: back to its beginning, and on over the space that both have there.
    let run = a_list
        .iter()
        .map(|(_, end, _)| end + from)
        .rfind(|end| *end <= at)
        .unwrap_or(a.content);
    let space = a_text[run.min(at)..at]
        .chars()
        .take_while(|c| c.is_whitespace())
        .map(char::len_utf8)
        .sum::<usize>();
    (run + space).min(at)
}

/// The end of the first special token after the content, and of the space after it.
fn first_close(text: &str, content: usize, specials: &Specials) -> usize {
    match specials.find(text, content) {
        Some((_, end, _)) => end + text[end..].len() - text[end..].trim_start().len(),
        None => text.len(),
    }
}
