//! A model's tokenizer. Immutable; any thread may use it until it is freed.
use crate::abi::{guarded, pie_out_text, List, Out, Str, Words};
use pie_text::tokenizer as text;
use std::sync::Arc;

/// A loaded tokenizer. Templates share it.
pub struct Tokenizer(pub Arc<text::Tokenizer>);

/// A setting that a file may leave out.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum Maybe {
    No,
    Yes,
    Unsaid,
}

/// A GGUF's vocabulary, borrowed for the call. A field that the file does not have is empty.
#[repr(C)]
pub struct VocabularyRef {
    pub architecture: Str,
    pub model: Str,
    pub pre: Str,
    pub tokens: List<Str>,
    pub scores: List<f32>,
    pub types: List<i32>,
    pub merges: List<Str>,
    /// Tokens that are special whatever their types say.
    pub special_ids: Words,
    /// At most one.
    pub unknown: Words,
    pub precompiled_charsmap: Str,
    pub add_space_prefix: Maybe,
    pub remove_extra_whitespaces: Maybe,
    pub lowercase: Maybe,
    pub strip_accents: Maybe,
}

/// The table of a tokenizer's tokens. It is borrowed until the tokenizer is freed.
#[repr(C)]
pub struct TokenTable {
    /// The bytes of all tokens, one after another.
    pub bytes: Str,
    /// Where each token's bytes end.
    pub ends: Words,
    pub split_regex: Str,
    pub specials: usize,
    /// A text decoded from its beginning loses one leading space.
    pub drops_leading_space: bool,
}

#[repr(C)]
pub struct SpecialToken {
    pub id: u32,
    pub name: Str,
}

impl Maybe {
    fn get(self) -> Option<bool> {
        match self {
            Maybe::No => Some(false),
            Maybe::Yes => Some(true),
            Maybe::Unsaid => None,
        }
    }
}

impl VocabularyRef {
    unsafe fn get(&self) -> Result<text::Vocabulary<'_>, String> {
        let name = |what: &str, s: Str| {
            std::str::from_utf8(s.as_bytes()).map_err(|_| format!("its {what} is not UTF-8"))
        };
        let texts = |s: List<Str>| s.as_slice().iter().map(|s| s.as_bytes()).collect();
        Ok(text::Vocabulary {
            architecture: name("architecture", self.architecture)?,
            model: name("model", self.model)?,
            pre: name("pre-tokenizer", self.pre)?,
            tokens: texts(self.tokens),
            scores: self.scores.as_slice().to_vec(),
            types: self.types.as_slice().to_vec(),
            merges: texts(self.merges),
            special_ids: self.special_ids.as_slice().to_vec(),
            unknown: self.unknown.as_slice().first().copied(),
            add_space_prefix: self.add_space_prefix.get(),
            remove_extra_whitespaces: self.remove_extra_whitespaces.get(),
            precompiled_charsmap: self.precompiled_charsmap.as_bytes(),
            lowercase: self.lowercase.get(),
            strip_accents: self.strip_accents.get(),
        })
    }
}

/// Runs `load`. Returns null, and a text in `error`, when it fails.
unsafe fn give(
    error: *mut Out,
    load: impl FnOnce() -> Result<text::Tokenizer, String>,
) -> *mut Tokenizer {
    let loaded = guarded(
        Err("it made the tokenizers library fail: it is damaged".into()),
        load,
    );
    match loaded {
        Ok(tokenizer) => Box::into_raw(Box::new(Tokenizer(Arc::new(tokenizer)))),
        Err(text) => {
            pie_out_text(error, Str::of(&text));
            std::ptr::null_mut()
        }
    }
}

/// From a `tokenizer.json`, with at least `vocab_size` tokens. Returns null, and a text in `error`, when the file is
/// damaged.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_from_json(
    json: Str,
    vocab_size: u32,
    error: *mut Out,
) -> *mut Tokenizer {
    give(error, || {
        text::Tokenizer::from_json(json.as_bytes())?.padded(vocab_size)
    })
}

/// From a GGUF's vocabulary. Returns null, and a text in `error`, when it is damaged or of an unknown kind.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_from_vocabulary(
    vocabulary: *const VocabularyRef,
    error: *mut Out,
) -> *mut Tokenizer {
    give(error, || {
        text::Tokenizer::from_vocabulary(&(*vocabulary).get()?)
    })
}

/// A vocabulary of bytes: every byte is a token, and the tokens named `specials` come after them. It has at least
/// `vocab_size` tokens. Returns null, and a text in `error`, when there are too many.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_from_bytes(
    specials: List<Str>,
    vocab_size: u32,
    error: *mut Out,
) -> *mut Tokenizer {
    give(error, || {
        let names: Vec<String> = specials
            .as_slice()
            .iter()
            .map(|name| name.to_string_lossy())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        text::Tokenizer::from_bytes(&names)?.padded(vocab_size)
    })
}

#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_free(tokenizer: *mut Tokenizer) {
    guarded((), || drop(Box::from_raw(tokenizer)))
}

/// The tokens of `text` go to `out`'s words. Returns false, and a text in `out`, when it cannot be encoded. `plain`:
/// special tokens' names in the text are text.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Str,
    plain: bool,
    out: *mut Out,
) -> bool {
    let tokenizer = &(*tokenizer).0;
    let encoded = guarded(
        Err("the text made the tokenizers library fail".into()),
        || {
            let text = String::from_utf8_lossy(text.as_bytes());
            match plain {
                true => tokenizer.encode_plain(&text),
                false => tokenizer.encode(&text),
            }
        },
    );
    match encoded {
        Ok(tokens) => {
            (*out).words = tokens;
            true
        }
        Err(text) => {
            pie_out_text(out, Str::of(&text));
            false
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_table(tokenizer: *const Tokenizer) -> TokenTable {
    let tokenizer = &(*tokenizer).0;
    let (bytes, ends) = tokenizer.all_bytes();
    TokenTable {
        bytes: Str::bytes(bytes),
        ends: Words::of(ends),
        split_regex: Str::of(tokenizer.split_regex()),
        specials: tokenizer.specials().len(),
        drops_leading_space: tokenizer.drops_leading_space(),
    }
}

/// The special token number `index`, in the order of their ids. `index` is less than the table's `specials`.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_special(
    tokenizer: *const Tokenizer,
    index: usize,
) -> SpecialToken {
    let (id, name) = &(*tokenizer).0.specials()[index];
    SpecialToken {
        id: *id,
        name: Str::of(name),
    }
}

/// Finds the id of a token by the vocabulary's own spelling. Returns false when there is none.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_find(
    tokenizer: *const Tokenizer,
    token: Str,
    id: *mut u32,
) -> bool {
    guarded(false, || {
        let token = std::str::from_utf8(token.as_bytes()).ok();
        let found = token.and_then(|t| (*tokenizer).0.token_to_id(t));
        if let Some(found) = found {
            *id = found;
        }
        found.is_some()
    })
}
