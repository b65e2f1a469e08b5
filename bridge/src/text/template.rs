//! A model's chat template. Immutable; any thread may use it until it is freed.
use crate::abi::{guarded, pie_out_text, Out, Str, Words};
use pie_text::template::{self as text, Kind, Turn};
use std::ffi::c_void;

/// A loaded template.
pub struct Template(text::ChatTemplate);

/// C++'s tokenizer. Any thread may call it while the template lives.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TemplateEncoder {
    pub tokenizer: *const c_void,
    /// It never makes special tokens of text: they are found for it.
    pub is_plain: bool,
    /// Tokens into `out`'s words, or false and a text. `plain`: special tokens written in the text are text.
    pub encode:
        extern "C" fn(tokenizer: *const c_void, text: Str, plain: bool, out: *mut Out) -> bool,
}

// The tokenizer is immutable.
unsafe impl Send for TemplateEncoder {}
unsafe impl Sync for TemplateEncoder {}

/// What a template is made of, borrowed for the call.
#[repr(C)]
pub struct TemplateSetup {
    /// Jinja. Without one there is a plain manner of speaking.
    pub source: Str,
    pub has_source: bool,
    pub special_names: *const Str,
    pub special_ids: Words,
    /// A JSON object: `bos_token` and the like.
    pub variables: Str,
    /// Tokens that end a turn, whatever the template says.
    pub stops: Words,
    /// The moment that the template is told, in seconds since 1970; the clock's if negative.
    pub now: i64,
    pub encoder: TemplateEncoder,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub enum TurnKind {
    System,
    User,
    Assistant,
    Tools,
    Answer,
    Cue,
}

/// A turn, flat.
#[repr(C)]
pub struct TemplateTurn {
    pub kind: TurnKind,
    /// What is said; an answer's value.
    pub text: Str,
    /// The tool that answers.
    pub name: Str,
    /// JSON schemas.
    pub tools: *const Str,
    pub tools_count: usize,
}

impl text::Encoder for TemplateEncoder {
    fn encode(&self, text: &str, specials: bool) -> Result<Vec<u32>, String> {
        let mut out = Out::default();
        if (self.encode)(self.tokenizer, Str::of(text), !specials, &mut out) {
            return Ok(out.words);
        }
        Err(out.into_text())
    }
}

impl TurnKind {
    fn get(self) -> Kind {
        match self {
            TurnKind::System => Kind::System,
            TurnKind::User => Kind::User,
            TurnKind::Assistant => Kind::Assistant,
            TurnKind::Tools => Kind::Tools,
            TurnKind::Answer => Kind::Answer,
            TurnKind::Cue => Kind::Cue,
        }
    }
}

impl TemplateTurn {
    unsafe fn get(&self) -> Result<Turn, String> {
        let text = self.text.to_string_lossy();
        Ok(match self.kind {
            TurnKind::System => Turn::System(text),
            TurnKind::User => Turn::User(text),
            TurnKind::Assistant => Turn::Assistant(text),
            TurnKind::Tools => {
                let tools = slice(self.tools, self.tools_count);
                let parsed: Result<Vec<_>, _> = tools
                    .iter()
                    .map(|tool| text::tool(&tool.to_string_lossy()))
                    .collect();
                Turn::Tools(parsed?)
            }
            TurnKind::Answer => Turn::Answer {
                name: self.name.to_string_lossy(),
                value: text,
            },
            TurnKind::Cue => Turn::Cue,
        })
    }
}

/// # Safety
/// `ptr` has `len` items that outlive `'a`, or `len` is 0.
unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        _ => std::slice::from_raw_parts(ptr, len),
    }
}

impl TemplateSetup {
    unsafe fn get(&self) -> Result<text::Setup, String> {
        let ids = slice(self.special_ids.ptr, self.special_ids.len);
        let names = slice(self.special_names, ids.len());
        Ok(text::Setup {
            source: self.has_source.then(|| self.source.to_string_lossy()),
            specials: names
                .iter()
                .map(|name| name.to_string_lossy())
                .zip(ids.iter().copied())
                .collect(),
            variables: text::variables(&self.variables.to_string_lossy())?,
            stops: slice(self.stops.ptr, self.stops.len).to_vec(),
            now: (self.now >= 0).then_some(self.now),
            encoder: Box::new(self.encoder),
            encoder_is_plain: self.encoder.is_plain,
        })
    }
}

/// Puts words into `out`, or an error's text.
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
    Err("the chat template makes the Jinja engine fail".into())
}

/// Null and a text in `error` when the template is broken.
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

/// The tokens that turns add behind turns of the kinds `before` go to `out`'s words.
#[no_mangle]
pub unsafe extern "C" fn pie_template_extend(
    template: *const Template,
    before: *const TurnKind,
    before_count: usize,
    turns: *const TemplateTurn,
    turns_count: usize,
    out: *mut Out,
) -> bool {
    let words = guarded(broken(), || {
        let before: Vec<Kind> = slice(before, before_count)
            .iter()
            .map(|kind| kind.get())
            .collect();
        let turns: Result<Vec<Turn>, String> = slice(turns, turns_count)
            .iter()
            .map(|turn| turn.get())
            .collect();
        (*template).0.extend(&before, &turns?)
    });
    answer(out, words)
}

/// The tokens of one complete turn where such turns usually stand.
#[no_mangle]
pub unsafe extern "C" fn pie_template_alone(
    template: *const Template,
    turn: *const TemplateTurn,
    out: *mut Out,
) -> bool {
    let words = guarded(broken(), || (*template).0.alone((*turn).get()?));
    answer(out, words)
}

/// A whole rendering of messages as they are goes to `out`'s text: `{"messages": […], "tools": […], "cue": bool}`.
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

/// What closes the model's turn goes to `out`'s words.
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
