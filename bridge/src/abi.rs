//! The types of the C ABI, and the object into which a function of this crate puts a text or tokens for C++.
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Borrowed bytes or UTF-8 text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    pub ptr: *const u8,
    pub len: usize,
}

/// Borrowed items.
#[repr(C)]
pub struct List<T> {
    pub ptr: *const T,
    pub len: usize,
}

/// Borrowed numbers, such as tokens.
pub type Words = List<u32>;

impl Str {
    pub fn of(s: &str) -> Self {
        Self::bytes(s.as_bytes())
    }
    pub fn bytes(s: &[u8]) -> Self {
        Str {
            ptr: s.as_ptr(),
            len: s.len(),
        }
    }
    /// # Safety
    /// The caller's memory outlives `'a`.
    pub unsafe fn as_bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.ptr, self.len)
        }
    }
    pub unsafe fn to_string_lossy(self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl<T> List<T> {
    pub fn of(items: &[T]) -> Self {
        List {
            ptr: items.as_ptr(),
            len: items.len(),
        }
    }
    /// # Safety
    /// The caller's memory outlives `'a`.
    pub unsafe fn as_slice<'a>(self) -> &'a [T] {
        if self.len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(self.ptr, self.len)
        }
    }
}

// Derived implementations would require the same of `T`.
impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for List<T> {}

/// The C++ object of one running guest, as given to `pie_instance_launch`.
pub type GuestPtr = *mut c_void;

/// A text or tokens that a function of this crate gives to C++, or the text of its error.
#[derive(Default)]
pub struct Out {
    pub text: Vec<u8>,
    pub words: Vec<u32>,
}

impl Out {
    pub fn into_text(self) -> String {
        String::from_utf8(self.text)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
}

/// Runs `f`. A panic becomes `otherwise`.
pub fn guarded<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise)
}

/// Makes an empty `Out`. Free it with `pie_out_free`.
#[no_mangle]
pub extern "C" fn pie_out_new() -> *mut Out {
    Box::into_raw(Box::default())
}

/// The text, valid until the `Out` is written or freed.
#[no_mangle]
pub unsafe extern "C" fn pie_out_read(out: *const Out) -> Str {
    Str::bytes(&(*out).text)
}

/// The words, valid until the `Out` is written or freed.
#[no_mangle]
pub unsafe extern "C" fn pie_out_read_words(out: *const Out) -> Words {
    Words::of(&(*out).words)
}

#[no_mangle]
pub unsafe extern "C" fn pie_out_free(out: *mut Out) {
    drop(Box::from_raw(out))
}

/// Replaces the text by `text`.
#[no_mangle]
pub unsafe extern "C" fn pie_out_text(out: *mut Out, text: Str) {
    guarded((), || {
        let out = &mut *out;
        out.text.clear();
        out.text.extend_from_slice(text.as_bytes());
    })
}

/// Replaces the words by `n` zeros, which the caller overwrites.
#[no_mangle]
pub unsafe extern "C" fn pie_out_words(out: *mut Out, n: usize) -> *mut u32 {
    guarded(std::ptr::null_mut(), || {
        (*out).words = vec![0; n];
        (*out).words.as_mut_ptr()
    })
}
