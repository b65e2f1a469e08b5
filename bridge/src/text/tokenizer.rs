//! A model's tokenizer. Immutable; any thread may use it until it is freed.
use crate::abi::{guarded, pie_out_text, Out, Str, Words};
use pie_text::tokenizer as text;

/// A loaded tokenizer.
pub struct Tokenizer(pub text::Tokenizer);

/// Borrowed texts.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Strs {
    pub ptr: *const Str,
    pub len: usize,
}

/// Borrowed `f32`s.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Floats {
    pub ptr: *const f32,
    pub len: usize,
}

/// Borrowed `i32`s.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ints {
    pub ptr: *const i32,
    pub len: usize,
}

/// A switch that a file may leave out.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum Maybe {
    No,
    Yes,
    Unsaid,
}

/// A GGUF's vocabulary, borrowed for the call. What the file does not have is empty.
#[repr(C)]
pub struct VocabularyRef {
    pub architecture: Str,
    pub model: Str,
    pub pre: Str,
    pub tokens: Strs,
    pub scores: Floats,
    pub types: Ints,
    pub merges: Strs,
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

/// What a tokenizer knows of its tokens; borrowed until it is freed.
#[repr(C)]
pub struct TokenTable {
    /// The bytes of all tokens, one behind another.
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

/// # Safety
/// `ptr` has `len` items that outlive `'a`, or `len` is 0.
unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    match len {
        0 => &[],
        _ => std::slice::from_raw_parts(ptr, len),
    }
}

impl VocabularyRef {
    unsafe fn get(&self) -> Result<text::Vocabulary<'_>, String> {
        let name = |what: &str, s: Str| {
            std::str::from_utf8(s.as_bytes()).map_err(|_| format!("its {what} is not UTF-8"))
        };
        let texts = |s: Strs| slice(s.ptr, s.len).iter().map(|s| s.as_bytes()).collect();
        Ok(text::Vocabulary {
            architecture: name("architecture", self.architecture)?,
            model: name("model", self.model)?,
            pre: name("pre-tokenizer", self.pre)?,
            tokens: texts(self.tokens),
            scores: slice(self.scores.ptr, self.scores.len).to_vec(),
            types: slice(self.types.ptr, self.types.len).to_vec(),
            merges: texts(self.merges),
            special_ids: slice(self.special_ids.ptr, self.special_ids.len).to_vec(),
            unknown: slice(self.unknown.ptr, self.unknown.len).first().copied(),
            add_space_prefix: self.add_space_prefix.get(),
            remove_extra_whitespaces: self.remove_extra_whitespaces.get(),
            precompiled_charsmap: self.precompiled_charsmap.as_bytes(),
            lowercase: self.lowercase.get(),
            strip_accents: self.strip_accents.get(),
        })
    }
}

/// Runs `load`; null and a text in `error` when it fails.
unsafe fn give(
    error: *mut Out,
    load: impl FnOnce() -> Result<text::Tokenizer, String>,
) -> *mut Tokenizer {
    let loaded = guarded(
        Err("it makes the tokenizers library fail: it is damaged".into()),
        load,
    );
    match loaded {
        Ok(tokenizer) => Box::into_raw(Box::new(Tokenizer(tokenizer))),
        Err(text) => {
            pie_out_text(error, Str::of(&text));
            std::ptr::null_mut()
        }
    }
}

/// From a `tokenizer.json`, for a model of `vocab_size` tokens (0: as many as the tokenizer has). Null and a text in
/// `error` when it is not one.
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

/// From a GGUF's vocabulary. Null and a text in `error` when it is damaged or of a kind not known.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_from_vocabulary(
    vocabulary: *const VocabularyRef,
    error: *mut Out,
) -> *mut Tokenizer {
    give(error, || {
        text::Tokenizer::from_vocabulary(&(*vocabulary).get()?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_free(tokenizer: *mut Tokenizer) {
    guarded((), || drop(Box::from_raw(tokenizer)))
}

/// The tokens of `text` go to `out`'s words; false and a text when it cannot be encoded. `plain`: special tokens
/// written in the text are text.
#[no_mangle]
pub unsafe extern "C" fn pie_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Str,
    plain: bool,
    out: *mut Out,
) -> bool {
    let tokenizer = &(*tokenizer).0;
    let encoded = guarded(
        Err("the text makes the tokenizers library fail".into()),
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

/// The special token number `index`, which is less than `specials` of the table; by id.
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

/// The id of a token in the vocabulary's own spelling. False when there is none.
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
