//! Finds the tokens that turns add to a conversation.
use super::conversation::answered;
use super::marks::{Disguise, GUARD, STAND_IN};
use super::prefix::{certain, stand_in, stand_in_text};
use super::renderer::Renderer;
use super::specials::Encoder;
use super::turns::{Call, Turn, TurnKind};
use crate::tokenizer::Tokenizer;
use serde_json::json;

/// The number of earlier turns that are rendered. No known template looks back further.
const MEMORY: usize = 8;

/// The tokens that `turns` add after turns of the kinds `before`. `closed`: the last turn is complete.
pub fn extend(
    renderer: &Renderer,
    tokenizer: &Tokenizer,
    before: &[TurnKind],
    turns: &[Turn],
    closed: bool,
) -> Result<Vec<u32>, String> {
    let disguise = Disguise::of(turns)?;
    let turns = disguise.apply(turns);
    let extension = Extension {
        renderer,
        encoder: Encoder {
            tokenizer,
            disguise: &disguise,
        },
        closed,
    };
    // A turn that comes after a cue comes after the turn that the cue began.
    let (mut before, mut tokens) = (before.to_vec(), Vec::new());
    let mut rest = &turns[..];
    while !rest.is_empty() {
        let end = rest
            .iter()
            .position(|turn| *turn == Turn::Cue)
            .map_or(rest.len(), |at| at + 1);
        tokens.extend(extension.extend(&before, &rest[..end])?);
        before.extend(rest[..end].iter().map(Turn::kind));
        rest = &rest[end..];
    }
    Ok(tokens)
}

/// The parameters of one call.
struct Extension<'a> {
    renderer: &'a Renderer,
    encoder: Encoder<'a>,
    closed: bool,
}

impl Extension<'_> {
    /// A cue is the last of `turns`, if there is one.
    fn extend(&self, before: &[TurnKind], turns: &[Turn]) -> Result<Vec<u32>, String> {
        let renderer = self.renderer;
        let before = remembered(before);
        let first = self.attempt(&before, turns);
        if first.is_ok() || before.is_empty() && turns.len() == 1 && renderer.render(turns).is_ok()
        {
            return first;
        }
        // A template that moves the system text about (Mistral's) does not need it to write later turns.
        let without: Vec<TurnKind> = before
            .iter()
            .copied()
            .filter(|k| !matches!(k, TurnKind::System | TurnKind::Tools))
            .collect();
        if without.len() < before.len() && !without.is_empty() {
            let second = self.attempt(&without, turns);
            if second.is_ok() {
                return second;
            }
        }
        match self.piecewise(turns) {
            Ok(mut tokens) => {
                // Tools are written as at the beginning of a text. The token that begins a text is needed only once.
                let begin = renderer.begin_token();
                if !before.is_empty() && begin.is_some() && tokens.first().copied() == begin {
                    tokens.remove(0);
                }
                Ok(tokens)
            }
            Err(_) => first,
        }
    }

    /// The text that the template writes for `turns` after `before`. Fails if it does more than add to the text.
    fn attempt(&self, before: &[TurnKind], turns: &[Turn]) -> Result<Vec<u32>, String> {
        let (renderer, encoder) = (self.renderer, &self.encoder);
        let known = stand_ins(renderer, before, turns);
        let all: Vec<Turn> = known.iter().chain(turns).cloned().collect();
        let old = certain(renderer, &known, false, last_calls(&known))?;
        let new = certain(renderer, &all, self.closed, last_calls(&all))?;
        let Some(added) = new.strip_prefix(&old) else {
            return Err("the chat template rewrites earlier turns".into());
        };
        if added.contains(STAND_IN) {
            return Err("the chat template repeats earlier turns".into());
        }
        let written = new.replace(GUARD, "");
        for turn in turns {
            let Turn::System(text) = turn else { continue };
            if !written.contains(text.trim()) {
                return Err("the chat template leaves out a system turn".into());
            }
        }
        let (all, had) = (
            renderer.encode(&new, encoder)?,
            renderer.encode(&old, encoder)?,
        );
        if all.starts_with(&had) {
            return Ok(all[had.len()..].to_vec());
        }
        // A token crosses from the old text to the new. So the new text is encoded after the last special token, as in
        // the middle of a text.
        match renderer.specials.all(&old).last() {
            Some(&(start, end, _)) => {
                let mut tokens =
                    renderer.encode(&format!("{}{added}", &old[start..end]), encoder)?;
                tokens.remove(0);
                Ok(tokens)
            }
            None => renderer.encode(added, encoder),
        }
    }

    /// Each turn as the template writes it in a plain conversation: for orders of turns that the template refuses.
    fn piecewise(&self, turns: &[Turn]) -> Result<Vec<u32>, String> {
        let mut tokens = Vec::new();
        let mut last = TurnKind::User;
        for turn in turns {
            let kind = turn.kind();
            let one = std::slice::from_ref(turn);
            let added = self
                .attempt(usual_context(kind, last), one)
                .or_else(|error| match turn {
                    // The template has no place for it in the middle: a user's turn carries the words.
                    Turn::System(text) => self.attempt(
                        &[TurnKind::User, TurnKind::Assistant],
                        &[Turn::User(text.clone())],
                    ),
                    _ => Err(error),
                });
            tokens.extend(added?);
            last = kind;
        }
        Ok(tokens)
    }
}

/// The calls of the last turn. Their answers come next.
fn last_calls(turns: &[Turn]) -> &[Call] {
    match turns.last() {
        Some(Turn::Calls { calls, .. }) => calls,
        _ => &[],
    }
}

/// Keeps the leading system and tools turns, and the last turns from a user's turn on.
fn remembered(before: &[TurnKind]) -> Vec<TurnKind> {
    let lead = before
        .iter()
        .take_while(|k| matches!(k, TurnKind::System | TurnKind::Tools))
        .count();
    let (lead, rest) = before.split_at(lead);
    let mut from = rest.len().saturating_sub(MEMORY);
    if let Some(user) = rest[from..].iter().position(|k| *k == TurnKind::User) {
        from += user;
    }
    let mut kept: Vec<TurnKind> = Vec::new();
    for kind in lead {
        if !kept.contains(kind) {
            kept.push(*kind);
        }
    }
    kept.extend(&rest[from..]);
    kept
}

/// Stand-ins for turns of these kinds. An assistant's turn that is followed by answers is a turn that called tools. The
/// tools have the name of the tool that answers now, if one does.
fn stand_ins(renderer: &Renderer, before: &[TurnKind], turns: &[Turn]) -> Vec<Turn> {
    let named = turns.iter().find_map(|turn| match turn {
        Turn::Answer { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let known = before
        .iter()
        .enumerate()
        .map(|(n, kind)| match (stand_in(*kind, n), named) {
            (Turn::Answer { id, value, .. }, Some(name)) => Turn::Answer {
                name: name.into(),
                id,
                value,
            },
            (turn, _) => turn,
        });
    let mut known: Vec<Turn> = known.collect();
    for i in 0..known.len() {
        if known[i].kind() != TurnKind::Assistant || !renderer.style.writes_calls {
            continue;
        }
        let sample = json!({"value": stand_in_text(i)});
        let mut calls = answered(&known[i + 1..], &sample);
        if i + 1 + calls.len() == known.len() {
            calls.extend(answered(turns, &sample));
        }
        if !calls.is_empty() {
            let text = String::new();
            known[i] = Turn::Calls { text, calls };
        }
    }
    known
}

/// Where a turn of this kind usually stands.
pub fn usual_context(kind: TurnKind, last: TurnKind) -> &'static [TurnKind] {
    use TurnKind::*;
    match kind {
        Tools => &[],
        System | User | Answer => &[User, Assistant],
        Assistant => &[User, Assistant, User],
        Cue if last == Answer => &[User, Assistant, Answer],
        Cue => &[User, Assistant, User],
    }
}
