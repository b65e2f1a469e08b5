//! A model's chat template. Immutable; any thread may use it until it is freed.
use super::grammar::Grammar;
use super::tokenizer::Tokenizer;
use crate::abi::{guarded, pie_out_text, List, Out, Str, Words};
use crate::host::table::{TurnsKind, TurnsTurn};
use pie_text::template::{self as text, Turn, TurnKind};

/// A loaded template. It shares its tokenizer.
pub struct Template(text::ChatTemplate);

/// The parts that a template is made of, borrowed for the call.
#[repr(C)]
pub struct TemplateSetup {
    /// The Jinja source. It is empty for a model without a template, which then speaks plainly.
    pub source: Str,
    pub tokenizer: *const Tokenizer,
    /// A JSON object: `bos_token` and the like.
    pub variables: Str,
    /// Tokens that end a turn, whatever the template says.
    pub stops: Words,
    /// The time that the template sees, in seconds since 1970. If it is negative, the template sees the clock's time.
    pub now: i64,
}

fn kind(kind: TurnsKind) -> TurnKind {
    match kind {
        TurnsKind::System => TurnKind::System,
        TurnsKind::User => TurnKind::User,
        TurnsKind::Assistant => TurnKind::Assistant,
        TurnsKind::Tools => TurnKind::Tools,
        TurnsKind::Answer => TurnKind::Answer,
        TurnsKind::Cue => TurnKind::Cue,
    }
}

/// A turn that owns its texts. Fails on tools that are not JSON schemas, and on calls that are not JSON objects.
unsafe fn owned(turn: &TurnsTurn) -> Result<Turn, String> {
    let text = turn.text.to_string_lossy();
    let listed = turn.tools.as_slice();
    Ok(match turn.kind {
        TurnsKind::System => Turn::System(text),
        TurnsKind::User => Turn::User(text),
        TurnsKind::Assistant if listed.is_empty() => Turn::Assistant(text),
        TurnsKind::Assistant => {
            let parsed: Result<Vec<_>, _> = listed
                .iter()
                .map(|call| text::call(&call.to_string_lossy()))
                .collect();
            Turn::Calls {
                text,
                calls: parsed?,
            }
        }
        TurnsKind::Tools => {
            let parsed: Result<Vec<_>, _> = listed
                .iter()
                .map(|schema| text::tool(&schema.to_string_lossy()))
                .collect();
            Turn::Tools(parsed?)
        }
        TurnsKind::Answer => Turn::Answer {
            name: turn.name.to_string_lossy(),
            id: match listed {
                [] => String::new(),
                [id] => id.to_string_lossy(),
                _ => return Err(format!("an answer has {} ids; give one", listed.len())),
            },
            value: text,
        },
        TurnsKind::Cue => Turn::Cue,
    })
}

impl TemplateSetup {
    unsafe fn get(&self) -> Result<text::Setup, String> {
        let source = self.source.to_string_lossy();
        Ok(text::Setup {
            source: Some(source).filter(|source| !source.is_empty()),
            tokenizer: (*self.tokenizer).0.clone(),
            variables: text::variables(&self.variables.to_string_lossy())?,
            stops: self.stops.as_slice().to_vec(),
            now: (self.now >= 0).then_some(self.now),
        })
    }
}

/// Puts the words into `out`, or the error's text.
unsafe fn answer(out: *mut Out, words: Result<Vec<u32>, String>) -> bool {
    match words {
        Ok(words) => {
            (*out).words = words;
            true
        }
        Err(text) => {
            pie_out_text(out, Str::of(&text));
            false
        }
    }
}

fn broken<T>() -> Result<T, String> {
    Err("the chat template made the Jinja engine fail".into())
}

/// Returns null, and a text in `error`, when the template is broken.
#[no_mangle]
pub unsafe extern "C" fn pie_template_new(
    setup: *const TemplateSetup,
    error: *mut Out,
) -> *mut Template {
    match guarded(broken(), || text::ChatTemplate::new((*setup).get()?)) {
        Ok(template) => Box::into_raw(Box::new(Template(template))),
        Err(text) => {
            pie_out_text(error, Str::of(&text));
            std::ptr::null_mut()
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn pie_template_free(template: *mut Template) {
    guarded((), || drop(Box::from_raw(template)))
}

/// Sets an option of the template to a value, which is JSON, or removes it if there is no value. `options` are those before:
/// a JSON object, or nothing. The new ones go to `out`'s text, and whether the model's turn then begins inside of its
/// thoughts to its only word. Fails if the option is not allowed, or if the template refuses the value.
#[no_mangle]
pub unsafe extern "C" fn pie_template_set_option(
    template: *const Template,
    options: Str,
    name: Str,
    value: *const Str,
    out: *mut Out,
) -> bool {
    let set = guarded(broken(), || {
        let template = &(*template).0;
        let value = value.as_ref().map(|value| value.to_string_lossy());
        let options = text::options(&options.to_string_lossy())?;
        let options = template.set_option(&options, &name.to_string_lossy(), value.as_deref())?;
        let inside = template.begins_inside(&options)?;
        Ok((serde_json::Value::from(options).to_string(), inside))
    });
    let (went_well, text) = match set {
        Ok((options, inside)) => {
            (*out).words = vec![inside.into()];
            (true, options)
        }
        Err(text) => (false, text),
    };
    pie_out_text(out, Str::of(&text));
    went_well
}

/// The tokens that `turns` add after turns of the kinds `before` go to `out`'s words. `options` are a JSON object, or
/// nothing.
#[no_mangle]
pub unsafe extern "C" fn pie_template_extend(
    template: *const Template,
    before: List<TurnsKind>,
    turns: List<TurnsTurn>,
    options: Str,
    out: *mut Out,
) -> bool {
    let words = guarded(broken(), || {
        let before: Vec<TurnKind> = before.as_slice().iter().copied().map(kind).collect();
        let turns = turns.as_slice().iter().map(|turn| owned(turn));
        let turns: Result<Vec<Turn>, String> = turns.collect();
        let options = text::options(&options.to_string_lossy())?;
        (*template).0.extend(&before, &turns?, &options)
    });
    answer(out, words)
}

/// Writes the tokens of one complete turn to `out`'s words, as the template writes such a turn in its usual place.
#[no_mangle]
pub unsafe extern "C" fn pie_template_alone(
    template: *const Template,
    turn: *const TurnsTurn,
    options: Str,
    out: *mut Out,
) -> bool {
    let words = guarded(broken(), || {
        let options = text::options(&options.to_string_lossy())?;
        (*template).0.alone(owned(&*turn)?, &options)
    });
    answer(out, words)
}

/// Renders a whole conversation, `{"messages": […], "tools": […], "cue": bool, "options": {…}}`, as it is. The rendering
/// goes to `out`'s text.
#[no_mangle]
pub unsafe extern "C" fn pie_template_render(
    template: *const Template,
    conversation: Str,
    out: *mut Out,
) -> bool {
    let rendered = guarded(broken(), || {
        (*template).0.render(&conversation.to_string_lossy())
    });
    let (went_well, text) = match rendered {
        Ok(text) => (true, text),
        Err(text) => (false, text),
    };
    pie_out_text(out, Str::of(&text));
    went_well
}

/// The tokens that close the model's turn go to `out`'s words.
#[no_mangle]
pub unsafe extern "C" fn pie_template_seal(template: *const Template, out: *mut Out) {
    (*out).words = (*template).0.seal().to_vec();
}

/// The tokens that end a turn go to `out`'s words.
#[no_mangle]
pub unsafe extern "C" fn pie_template_stops(template: *const Template, out: *mut Out) {
    (*out).words = (*template).0.stops().to_vec();
}

/// The formats of reasoning and of tool calls go to `out`'s text as a JSON object.
#[no_mangle]
pub unsafe extern "C" fn pie_template_formats(template: *const Template, out: *mut Out) {
    guarded((), || pie_out_text(out, Str::of(&(*template).0.formats())))
}

/// The grammar of calls of these tools, which are JSON schemas. Returns null if there is none: because of an error, whose
/// text is in `error`, or because the model's form of calls is unknown or no tools are given.
#[no_mangle]
pub unsafe extern "C" fn pie_template_call_grammar(
    template: *const Template,
    tools: List<Str>,
    error: *mut Out,
) -> *mut Grammar {
    let made = guarded(
        Err("the tools made the grammar's compiler fail".into()),
        || {
            let schemas = tools.as_slice().iter();
            let tools: Result<Vec<_>, String> = schemas
                .map(|schema| text::tool(&schema.to_string_lossy()))
                .collect();
            let grammar = (*template).0.call_grammar(&tools?);
            grammar.map_err(|fault| fault.to_string())
        },
    );
    match made {
        Ok(Some(grammar)) => Box::into_raw(Box::new(Grammar::of(grammar))),
        Ok(None) => std::ptr::null_mut(),
        Err(fault) => {
            pie_out_text(error, Str::of(&fault));
            std::ptr::null_mut()
        }
    }
}
