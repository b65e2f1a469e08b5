//! Finds the options of a template, and the texts that it writes around a turn, by rendering small conversations.
use super::conversation::{Style, PYTHON_CALLS};
use super::prefix::{certain, stand_in_text, stand_in_tool};
use super::renderer::Renderer;
use super::turns::{Call, Turn};
use serde_json::json;

/// Stand-ins of the probes.
pub const ASKED: usize = 100;
pub const SAID: usize = 101;
pub const OTHER: usize = 102;
pub const TOOL: &str = "probed_tool";

pub fn user(n: usize) -> Turn {
    Turn::User(stand_in_text(n))
}

pub fn assistant(n: usize) -> Turn {
    Turn::Assistant(stand_in_text(n))
}

fn call(n: usize) -> Call {
    Call {
        name: TOOL.into(),
        id: String::new(),
        arguments: json!({"value": stand_in_text(n)}),
    }
}

fn calls(n: usize) -> Turn {
    Turn::Calls {
        text: String::new(),
        calls: vec![call(n)],
    }
}

fn answer(n: usize) -> Turn {
    Turn::Answer {
        name: TOOL.into(),
        id: String::new(),
        value: stand_in_text(n),
    }
}

/// Sets `renderer.style`. Fails if the template cannot write the simplest conversation.
pub fn find_style(renderer: &mut Renderer) -> Result<(), String> {
    renderer.style = Style::plain();
    let text = renderer.render(&[user(ASKED)])?;
    if !text.contains(&stand_in_text(ASKED)) {
        return Err("chat template: its output does not contain the text of a user's turn".into());
    }
    let writes = |renderer: &Renderer, turns: &[Turn], wanted: &[&str]| {
        renderer
            .render(turns)
            .is_ok_and(|text| wanted.iter().all(|part| text.contains(part)))
    };
    let (asked, said, other) = (
        stand_in_text(ASKED),
        stand_in_text(SAID),
        stand_in_text(OTHER),
    );

    let system = [Turn::System(other.clone()), user(ASKED)];
    renderer.style.folds_system = !writes(renderer, &system, &[&asked, &other]);

    // How a call wants to be told, if the template writes calls at all.
    renderer.style.writes_calls = false;
    for tried in 0..8 {
        let (null_content, text_arguments, named_ids) =
            (tried & 1 == 0, tried & 2 != 0, tried & 4 != 0);
        let tried = Style {
            null_content,
            text_arguments,
            named_ids,
            writes_calls: true,
            ..renderer.style.clone()
        };
        let before = std::mem::replace(&mut renderer.style, tried);
        if writes(renderer, &[user(ASKED), calls(SAID)], &[TOOL, &said]) {
            break;
        }
        renderer.style = before;
    }
    if renderer.style.writes_calls {
        let two = Turn::Calls {
            text: String::new(),
            calls: vec![call(SAID), call(OTHER)],
        };
        let with_text = Turn::Calls {
            text: other.clone(),
            calls: vec![call(SAID)],
        };
        renderer.style.one_call = !writes(renderer, &[user(ASKED), two], &[&said, &other]);
        renderer.style.text_hides_calls =
            !writes(renderer, &[user(ASKED), with_text], &[TOOL, &said]);
    }
    // LFM2's template shows tools but no calls; its tokens tell how the model writes them.
    let (open, close) = PYTHON_CALLS;
    renderer.style.python_calls = !renderer.style.writes_calls
        && [open, close]
            .iter()
            .all(|mark| renderer.specials.id(mark).is_some());
    let called = if renderer.style.writes_calls {
        calls(SAID)
    } else {
        assistant(SAID)
    };
    renderer.style.answers_as_user = !writes(
        renderer,
        &[user(ASKED), called, answer(OTHER)],
        &[&said, &other],
    );
    renderer.style.wants_calls = renderer.style.writes_calls
        && !renderer.style.answers_as_user
        && !writes(
            renderer,
            &[user(ASKED), assistant(SAID), answer(OTHER)],
            &[&said, &other],
        );
    if renderer.style.answers_as_user {
        renderer.style.wants_calls = false;
    }

    let tools = [Turn::Tools(vec![stand_in_tool(&other)]), user(ASKED)];
    renderer.style.describes_tools = !writes(renderer, &tools, &[&asked, &other]);
    let mut bare = stand_in_tool(&other);
    if let Some(function) = bare["function"].as_object_mut() {
        function.retain(|key, _| key == "name");
    }
    let tools = [Turn::Tools(vec![bare]), user(ASKED)];
    renderer.style.full_schemas =
        !renderer.style.describes_tools && !writes(renderer, &tools, &[&asked, &other]);
    Ok(())
}

/// The text that closes an assistant's turn.
pub fn seal(renderer: &Renderer) -> Result<String, String> {
    let text = certain(renderer, &[user(ASKED), assistant(SAID)], true, &[])?;
    Ok(behind(&text, SAID).to_string())
}

/// The text between a user's turn and the model's own.
pub fn cue(renderer: &Renderer) -> Result<String, String> {
    let before = certain(renderer, &[user(ASKED)], true, &[])?;
    let text = renderer.render(&[user(ASKED), Turn::Cue])?;
    Ok(text
        .strip_prefix(&before)
        .unwrap_or(behind(&text, ASKED))
        .to_string())
}

fn behind(text: &str, n: usize) -> &str {
    let mark = stand_in_text(n);
    text.rfind(&mark).map_or("", |at| &text[at + mark.len()..])
}

/// Ids of the special tokens that end a turn: the first one after a last turn's words, and the last one after a call.
pub fn stops(renderer: &Renderer) -> Vec<u32> {
    let mut stops = Vec::new();
    let mut add = |id: Option<u32>| stops.extend(id);
    for turns in [[user(ASKED), assistant(SAID)], [user(ASKED), calls(SAID)]] {
        let Ok(text) = renderer.render(&turns) else {
            continue;
        };
        let specials = renderer.specials.all(behind(&text, SAID));
        match &turns[1] {
            Turn::Assistant(_) => add(specials.first().map(|s| s.2)),
            _ if renderer.style.writes_calls => add(specials.last().map(|s| s.2)),
            _ => {}
        }
    }
    if let Ok(seal) = seal(renderer) {
        if stops.is_empty() {
            stops.extend(renderer.specials.all(&seal).first().map(|s| s.2));
        }
    }
    stops.dedup();
    stops
}
