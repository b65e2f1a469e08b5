//! Turns → the tokens that they add to a conversation.
use super::prefix::{certain, stand_in, stand_in_text};
use super::renderer::{check_content, Renderer, STAND_IN};
use super::specials::Encoder;
use super::turns::{Kind, Turn};

/// Turns before the pending ones that are looked at: a template's memory is not longer.
const MEMORY: usize = 8;

pub fn extend(
    renderer: &Renderer,
    encoder: &dyn Encoder,
    before: &[Kind],
    turns: &[Turn],
    closed: bool,
) -> Result<Vec<u32>, String> {
    check_content(turns)?;
    // What follows a cue follows the turn that it began.
    let (mut before, mut tokens) = (before.to_vec(), Vec::new());
    let mut rest = turns;
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|turn| *turn == Turn::Cue)
            .map_or(rest.len(), |at| at + 1);
        tokens.extend(extend_once(
            renderer,
            encoder,
            &before,
            &rest[..end],
            closed,
        )?);
        before.extend(rest[..end].iter().map(Turn::kind));
        rest = &rest[end..];
    }
    Ok(tokens)
}

fn extend_once(
    renderer: &Renderer,
    encoder: &dyn Encoder,
    before: &[Kind],
    turns: &[Turn],
    closed: bool,
) -> Result<Vec<u32>, String> {
    let before = remembered(before);
    let first = attempt(renderer, encoder, &before, turns, closed);
    if first.is_ok() || before.is_empty() && turns.len() == 1 && renderer.render(turns).is_ok() {
        return first;
    }
    // A template that moves the system text about (Mistral's) does not need it to write what comes later.
    let without: Vec<Kind> = before
        .iter()
        .copied()
        .filter(|k| !matches!(k, Kind::System | Kind::Tools))
        .collect();
    if without.len() < before.len() && !without.is_empty() {
        let second = attempt(renderer, encoder, &without, turns, closed);
        if second.is_ok() {
            return second;
        }
    }
    match piecewise(renderer, encoder, turns, closed) {
        Ok(mut tokens) => {
            // Tools are written as at the beginning: once is enough for what begins a text.
            let begin = renderer.begin_token();
            if !before.is_empty() && begin.is_some() && tokens.first().copied() == begin {
                tokens.remove(0);
            }
            Ok(tokens)
        }
        Err(_) => first,
    }
}

/// The leading system and tools, then the last turns, from a user's on.
fn remembered(before: &[Kind]) -> Vec<Kind> {
    let lead = before
        .iter()
        .take_while(|k| matches!(k, Kind::System | Kind::Tools))
        .count();
    let (lead, rest) = before.split_at(lead);
    let mut from = rest.len().saturating_sub(MEMORY);
    if let Some(user) = rest[from..].iter().position(|k| *k == Kind::User) {
        from += user;
    }
    let mut kept: Vec<Kind> = Vec::new();
    for kind in lead {
        if !kept.contains(kind) {
            kept.push(*kind);
        }
    }
    kept.extend(&rest[from..]);
    kept
}

/// Stand-ins for turns of these kinds. One that was followed by answers called tools: by the name of the tool that
/// answers now, as far as that is known.
fn stand_ins(renderer: &Renderer, before: &[Kind], turns: &[Turn]) -> Vec<Turn> {
    let named = turns.iter().find_map(|turn| match turn {
        Turn::Answer { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let known = before
        .iter()
        .enumerate()
        .map(|(n, kind)| match (stand_in(*kind, n), named) {
            (Turn::Answer { value, .. }, Some(name)) => Turn::Answer {
                name: name.into(),
                value,
            },
            (turn, _) => turn,
        });
    let mut known: Vec<Turn> = known.collect();
    for i in 0..known.len() {
        if known[i].kind() != Kind::Assistant || !renderer.style.writes_calls {
            continue;
        }
        let answers = count_answers(&known[i + 1..]);
        let goes_on = i + 1 + answers == known.len();
        let rest: &[Turn] = if goes_on { turns } else { &[] };
        let names: Vec<String> = known[i + 1..]
            .iter()
            .chain(rest)
            .map_while(|turn| match turn {
                Turn::Answer { name, .. } => Some(name.clone()),
                _ => None,
            })
            .collect();
        if !names.is_empty() {
            known[i] = Turn::Calls {
                names,
                sample: stand_in_text(i),
            };
        }
    }
    known
}

fn count_answers(turns: &[Turn]) -> usize {
    turns
        .iter()
        .take_while(|turn| turn.kind() == Kind::Answer)
        .count()
}

/// What the template writes for `turns` behind `before`, if it only adds.
fn attempt(
    renderer: &Renderer,
    encoder: &dyn Encoder,
    before: &[Kind],
    turns: &[Turn],
    closed: bool,
) -> Result<Vec<u32>, String> {
    let known = stand_ins(renderer, before, turns);
    let answers: Vec<String> = match known.last() {
        Some(Turn::Calls { names, .. }) => names.clone(),
        _ => vec![],
    };
    let all: Vec<Turn> = known.iter().chain(turns).cloned().collect();
    let old = certain(renderer, &known, false, &answers)?;
    let new = certain(renderer, &all, closed, &[])?;
    let Some(added) = new.strip_prefix(&old) else {
        return Err("the template rewrites what is already said".into());
    };
    if added.contains(STAND_IN) {
        return Err("the template repeats what is already said".into());
    }
    for (kind, text) in turns.iter().filter_map(said) {
        if !text.is_empty()
            && !new.contains(text)
            && !new.contains(text.trim())
            && kind == Kind::System
        {
            return Err("the template leaves out a system turn".into());
        }
    }
    let (all, had) = (
        renderer.encode(&new, encoder)?,
        renderer.encode(&old, encoder)?,
    );
    if all.starts_with(&had) {
        return Ok(all[had.len()..].to_vec());
    }
    // A token crosses from the old text to the new: begin the new one behind a special token, as in the middle of a text.
    match renderer.specials.all(&old).last() {
        Some(&(start, end, _)) => {
            let mut tokens = renderer.encode(&format!("{}{added}", &old[start..end]), encoder)?;
            tokens.remove(0);
            Ok(tokens)
        }
        None => renderer.encode(added, encoder),
    }
}

fn said(turn: &Turn) -> Option<(Kind, &str)> {
    match turn {
        Turn::System(text) | Turn::User(text) | Turn::Assistant(text) => Some((turn.kind(), text)),
        _ => None,
    }
}

/// Turn by turn, each as it is written in a plain conversation: for orders of turns that the template refuses.
fn piecewise(
    renderer: &Renderer,
    encoder: &dyn Encoder,
    turns: &[Turn],
    closed: bool,
) -> Result<Vec<u32>, String> {
    let mut tokens = Vec::new();
    let mut last = Kind::User;
    for turn in turns {
        let kind = turn.kind();
        let one = std::slice::from_ref(turn);
        let context = usual_context(kind, last);
        let added = attempt(renderer, encoder, context, one, closed).or_else(|error| match turn {
            // No place for it in the middle: a user's turn carries the words.
            Turn::System(text) => attempt(
                renderer,
                encoder,
                &[Kind::User, Kind::Assistant],
                &[Turn::User(text.clone())],
                closed,
            ),
            _ => Err(error),
        });
        tokens.extend(added?);
        last = kind;
    }
    Ok(tokens)
}

/// Where a turn of this kind usually stands.
pub fn usual_context(kind: Kind, last: Kind) -> &'static [Kind] {
    use Kind::*;
    match kind {
        Tools => &[],
        System | User | Answer => &[User, Assistant],
        Assistant => &[User, Assistant, User],
        Cue if last == Answer => &[User, Assistant, Answer],
        Cue => &[User, Assistant, User],
    }
}
