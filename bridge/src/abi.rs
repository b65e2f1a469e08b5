//! What crosses the ABI: borrowed slices one way, an [`Out`] filled by C++ the other way.
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Borrowed bytes or UTF-8 text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    pub ptr: *const u8,
    pub len: usize,
}

/// Borrowed `u32`s.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Words {
    pub ptr: *const u32,
    pub len: usize,
}

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

impl Words {
    pub fn of(s: &[u32]) -> Self {
        Words {
            ptr: s.as_ptr(),
            len: s.len(),
        }
    }
}

/// The C++ object of one running guest, as given to `pie_instance_launch`.
pub type GuestPtr = *mut c_void;

/// Where C++ writes what does not fit a return value. A call that returns false has put its error text in `text`.
#[derive(Default)]
pub struct Out {
    pub text: Vec<u8>,
    pub words: Vec<u32>,
    pub floats: Vec<f32>,
    pub blobs: Vec<Vec<u8>>,
    pub slots: Vec<crate::host::SlotOutput>,
}

impl Out {
    pub fn into_text(self) -> String {
        String::from_utf8(self.text)
            .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
    }
    pub fn into_texts(self) -> Vec<String> {
        self.blobs
            .into_iter()
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .collect()
    }
}

/// Run `f`, turning a panic into `otherwise`.
pub fn guarded<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(otherwise)
}

fn fresh<T: Copy + Default>(list: &mut Vec<T>, n: usize) -> *mut T {
    list.clear();
    list.resize(n, T::default());
    list.as_mut_ptr()
}

/// Replace the text by `text`.
#[no_mangle]
pub unsafe extern "C" fn pie_out_text(out: *mut Out, text: Str) {
    guarded((), || {
        let out = &mut *out;
        out.text.clear();
        out.text.extend_from_slice(text.as_bytes());
    })
}

/// Room for `n` words, to be written by the caller.
#[no_mangle]
pub unsafe extern "C" fn pie_out_words(out: *mut Out, n: usize) -> *mut u32 {
    guarded(std::ptr::null_mut(), || fresh(&mut (*out).words, n))
}

/// Append one item to the list of blobs.
#[no_mangle]
pub unsafe extern "C" fn pie_out_blob(out: *mut Out, blob: Str) {
    guarded((), || (*out).blobs.push(blob.as_bytes().to_vec()))
}
