//! How the model writes a tool call, found in what the template writes for one.
use super::conversation::{call_message, PYTHON_CALLS};
use super::prefix::stand_in_text;
use super::probe::{seal, stops, user, ASKED, TOOL};
use super::renderer::Renderer;
use super::turns::{Call, Turn};
use serde_json::{json, Value as Json};

/// A call, between `open` and `close`. An empty `open`: it is the whole turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Calls {
    /// `{"name": …, "arguments": …}`, or a list of such objects. An empty `name_key`: `{name: arguments}`.
    Object {
        open: String,
        close: String,
        name_key: String,
        arguments_key: String,
        /// Whether the template writes a list.
        list: bool,
    },
    /// A name, anything, then the arguments as a JSON object. `between` is what the template writes for "anything".
    Named {
        open: String,
        between: String,
        close: String,
    },
    /// A name, then `first` key `middle` value `last` for each argument.
    Tagged {
        open: String,
        first: String,
        middle: String,
        last: String,
        close: String,
        /// Whether a value stands on lines of its own.
        lines: bool,
    },
    /// `[name(key=value, …), …]`
    Python { open: String, close: String },
}

impl Calls {
    pub fn to_json(&self) -> Json {
        match self {
            Calls::Object {
                open,
                close,
                name_key,
                arguments_key,
                ..
            } => json!({
                "form": "object", "open": open, "close": close, "name_key": name_key, "arguments_key": arguments_key}),
            Calls::Named { open, close, .. } => {
                json!({"form": "named", "open": open, "close": close})
            }
            Calls::Tagged {
                open,
                first,
                middle,
                last,
                close,
                ..
            } => json!({
                "form": "tagged", "open": open, "first": first, "middle": middle, "last": last, "close": close}),
            Calls::Python { open, close } => {
                json!({"form": "python", "open": open, "close": close})
            }
        }
    }
}

/// The format that we ask of a model whose template knows no calls; see `conversation.rs`.
fn described() -> Calls {
    Calls::Object {
        open: "<tool_call>".into(),
        close: "</tool_call>".into(),
        name_key: "name".into(),
        arguments_key: "arguments".into(),
        list: false,
    }
}

/// None if the template writes calls in a way that is none of these.
pub fn calls(renderer: &Renderer) -> Option<Calls> {
    if !renderer.style.writes_calls {
        if renderer.style.python_calls {
            let (open, close) = (PYTHON_CALLS.0.into(), PYTHON_CALLS.1.into());
            return Some(Calls::Python { open, close });
        }
        return Some(described());
    }
    let arguments = json!({"probed_key": "probed_value", "second_key": "second_value"});
    let text = written(renderer, &arguments, 1)?;
    let name = text.find(TOOL)?;
    let (before, behind) = (&text[..name], &text[name + TOOL.len()..]);
    if let Some(found) = object(renderer, &text, name, &arguments) {
        return Some(found);
    }
    let open = opening(renderer, before, &arguments);
    if behind.starts_with('(') {
        let close = closing(behind.rsplit(')').next()?.trim_start_matches(']'), renderer);
        return Some(Calls::Python {
            open: open.trim_end_matches('[').to_string(),
            close,
        });
    }
    if let Some(at) = behind.find('{') {
        let mut stream = serde_json::Deserializer::from_str(&behind[at..]).into_iter::<Json>();
        if matches!(stream.next(), Some(Ok(value)) if is_arguments(&value, &arguments))
            && !open.is_empty()
        {
            let close = closing(&behind[at + stream.byte_offset()..], renderer);
            let between = behind[..at].to_string();
            return Some(Calls::Named {
                open,
                between,
                close,
            });
        }
    }
    tagged(renderer, open, behind)
}

/// The assistant's turn with `count` calls, from after the cue on.
fn written(renderer: &Renderer, arguments: &Json, count: usize) -> Option<String> {
    let asked = stand_in_text(ASKED);
    let call = Call {
        name: TOOL.into(),
        id: String::new(),
        arguments: arguments.clone(),
    };
    let messages = vec![
        json!({"role": "user", "content": asked}),
        call_message("", &vec![call; count], &renderer.style),
    ];
    let text = renderer.render_messages(&messages.into(), 0).ok()?;
    let at = text.find(&asked)? + asked.len();
    let behind = &text[at..];
    let prompt = renderer.render(&[user(ASKED), Turn::Cue]).ok()?;
    let cue = prompt.get(at..).unwrap_or_default();
    let mut common = cue
        .bytes()
        .zip(behind.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    while !behind.is_char_boundary(common) {
        common -= 1;
    }
    // The text must not end within a tag or a special token.
    if let Some(tag) = behind[..common]
        .rfind(['<', '['])
        .filter(|tag| !behind[*tag..common].contains(['>', ']']))
    {
        common = tag;
    }
    Some(behind[common..].to_string())
}

fn is_arguments(value: &Json, arguments: &Json) -> bool {
    let as_text = || {
        value
            .as_str()
            .and_then(|text| serde_json::from_str::<Json>(text).ok())
    };
    value == arguments || as_text().is_some_and(|parsed| parsed == *arguments)
}

/// A call that is one JSON object around the name.
fn object(renderer: &Renderer, text: &str, name: usize, arguments: &Json) -> Option<Calls> {
    for (start, _) in text[..name].rmatch_indices('{') {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Json>();
        let Some(Ok(Json::Object(entries))) = stream.next() else {
            continue;
        };
        let end = start + stream.byte_offset();
        if end <= name {
            continue;
        }
        let arguments_key = entries
            .iter()
            .find(|(_, value)| is_arguments(value, arguments))?
            .0
            .clone();
        let name_key = match entries
            .iter()
            .find(|(_, value)| value.as_str() == Some(TOOL))
        {
            Some((key, _)) => key.clone(),
            None if arguments_key == TOOL => String::new(),
            None => return None,
        };
        let (mut before, mut after) = (text[..start].trim_end(), text[end..].trim_start());
        let mut list = false;
        if let (Some(outer), true) = (before.strip_suffix('['), after.starts_with(']')) {
            list = true;
            (before, after) = (outer.trim_end(), after[1..].trim_start());
        }
        let (open, close) = (line_mark(before, renderer), closing(after, renderer));
        return Some(Calls::Object {
            open,
            close,
            name_key,
            arguments_key,
            list,
        });
    }
    None
}

/// The text that every call of a turn begins with. Two calls show which text belongs to the first only.
fn opening(renderer: &Renderer, before: &str, arguments: &Json) -> String {
    let second = written(renderer, arguments, 2).and_then(|text| {
        let first = text.find(TOOL)? + TOOL.len();
        let next = first + text[first..].find(TOOL)?;
        Some(text[..next].to_string())
    });
    let common = second.map_or(0, |second| {
        before
            .chars()
            .rev()
            .zip(second.chars().rev())
            .take_while(|(a, b)| a == b)
            .map(|(c, _)| c.len_utf8())
            .sum()
    });
    let mark = before[before.len() - common..].trim_start();
    // From the first whole tag on.
    let from = mark.find(['<', '[']).unwrap_or(0);
    let mark = if mark[from..].is_empty() {
        line_mark(before, renderer)
    } else {
        mark[from..].to_string()
    };
    // An id stands there for this call only.
    match mark.rfind("000000000") {
        Some(at) => mark[at + 9..].to_string(),
        None => mark,
    }
}

/// The text before a call: from a special token on, or on its own line.
fn line_mark(before: &str, renderer: &Renderer) -> String {
    let before = before.trim();
    let start = match renderer.specials.all(before).first() {
        Some((start, ..)) if before[..*start].trim().is_empty() => *start,
        _ => before.rfind('\n').map_or(0, |at| at + 1),
    };
    before[start..].to_string()
}

/// The text after a call, without the text that closes the turn.
fn closing(after: &str, renderer: &Renderer) -> String {
    let after = after.trim();
    let seal = seal(renderer).unwrap_or_default();
    let after = after.strip_suffix(seal.trim()).unwrap_or(after).trim();
    let stops = stops(renderer);
    let end = renderer
        .specials
        .all(after)
        .iter()
        .find(|(_, _, id)| stops.contains(id))
        .map_or(after.len(), |s| s.0);
    // The first mark is enough: others close what holds all calls.
    let line = after[..end]
        .trim()
        .split('\n')
        .next()
        .unwrap_or_default()
        .trim();
    let end = match renderer.specials.find(line, 0) {
        Some((_, end, _)) => end,
        None => line.find('>').map_or(line.len(), |at| at + 1),
    };
    line[..end].to_string()
}

/// Keys and values between marks.
fn tagged(renderer: &Renderer, open: String, behind: &str) -> Option<Calls> {
    let place = |from: usize, what: &str| {
        behind[from..]
            .find(what)
            .map(|at| (from + at, from + at + what.len()))
    };
    let (key, key_end) = place(0, "probed_key")?;
    let (value, value_end) = place(key_end, "probed_value")?;
    let (second, second_end) = place(value_end, "second_key")?;
    let (_, end) = place(second_end, "second_value")?;
    let (between, tail) = (&behind[value_end..second], &behind[end..]);
    // Between two pairs stand the end of one and the beginning of the next; what both ends share ends a pair.
    let mut common = between
        .bytes()
        .zip(tail.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    while !between.is_char_boundary(common) {
        common -= 1;
    }
    let last_end = between[..common].rfind('>').map_or(common, |at| at + 1);
    let trimmed = |text: &str| text.trim_matches('\n').to_string();
    let next = &between[last_end..];
    let first = if next.trim().is_empty() {
        behind[..key].trim_start_matches('>')
    } else {
        next
    };
    if open.is_empty() || first.trim().is_empty() {
        return None;
    }
    Some(Calls::Tagged {
        open,
        first: first.trim().to_string(),
        middle: trimmed(&behind[key_end..value]),
        last: trimmed(&between[..last_end]),
        close: closing(&tail[last_end.min(tail.len())..], renderer),
        lines: behind[..value].ends_with('\n') && between.starts_with('\n'),
    })
}
