//! The result of a host function that returns more than one number.
//!
//! C++ writes the parts of a result in order, depth first; [`Take`] reads them in the same order. Numbers, cases of variants and
//! lengths of lists are numbers. Strings and lists of bytes are blobs. Lists of 32-bit items are words. Blobs and words become
//! the guest's lists without another copy.
use crate::abi::{guarded, List, Str};
use wasmtime::component::Resource;

/// The parts of a result, or the text of an error. Kept between the calls of a guest, so that most calls allocate nothing here.
#[derive(Default)]
pub struct Reply {
    numbers: Vec<u64>,
    blobs: Vec<Vec<u8>>,
    words: Vec<Vec<u32>>,
    error: Vec<u8>,
}

impl Reply {
    /// Reads the result, and empties the reply.
    pub(super) fn take<T: Take>(&mut self) -> T {
        let mut reader = Reader {
            numbers: self.numbers.drain(..),
            blobs: self.blobs.drain(..),
            words: self.words.drain(..),
        };
        reader.take()
    }

    /// Takes the error, and empties the reply: C++ may have failed when a part of the result was written.
    pub(super) fn take_error(&mut self) -> String {
        let reply = std::mem::take(self);
        text(reply.error)
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

/// Reads a reply from its start.
pub struct Reader<'a> {
    numbers: std::vec::Drain<'a, u64>,
    blobs: std::vec::Drain<'a, Vec<u8>>,
    words: std::vec::Drain<'a, Vec<u32>>,
}

const SHORT: &str = "C++ writes every part of a result"; // both sides are generated from the same contract

impl Reader<'_> {
    pub fn take<T: Take>(&mut self) -> T {
        T::take(self)
    }
    pub fn number(&mut self) -> u64 {
        self.numbers.next().expect(SHORT)
    }
    fn blob(&mut self) -> Vec<u8> {
        self.blobs.next().expect(SHORT)
    }
    fn words(&mut self) -> Vec<u32> {
        self.words.next().expect(SHORT)
    }
}

/// A type that a reply can hold.
pub trait Take: Sized {
    fn take(from: &mut Reader<'_>) -> Self;
    fn take_list(from: &mut Reader<'_>) -> Vec<Self> {
        (0..from.number()).map(|_| Self::take(from)).collect()
    }
}

/// The panic of a number that is no case of a variant or enum. Guests see it as an error of the engine.
pub fn unknown_case(id: &str, case: u64) -> ! {
    panic!("{id} has no case {case}")
}

macro_rules! take_numbers {
    ($($number:ty),*) => { $(
        impl Take for $number {
            fn take(from: &mut Reader<'_>) -> Self {
                from.number() as $number
            }
        }
    )* };
}
take_numbers!(u16, u64, i8, i16, i32, i64);

impl Take for bool {
    fn take(from: &mut Reader<'_>) -> Self {
        from.number() != 0
    }
}

impl Take for u8 {
    fn take(from: &mut Reader<'_>) -> Self {
        from.number() as u8
    }
    fn take_list(from: &mut Reader<'_>) -> Vec<Self> {
        from.blob()
    }
}

impl Take for u32 {
    fn take(from: &mut Reader<'_>) -> Self {
        from.number() as u32
    }
    fn take_list(from: &mut Reader<'_>) -> Vec<Self> {
        from.words()
    }
}

impl Take for f32 {
    fn take(from: &mut Reader<'_>) -> Self {
        f32::from_bits(from.number() as u32)
    }
    fn take_list(from: &mut Reader<'_>) -> Vec<Self> {
        // The compiler reuses the allocation and removes the loop.
        from.words().into_iter().map(f32::from_bits).collect()
    }
}

impl Take for f64 {
    fn take(from: &mut Reader<'_>) -> Self {
        f64::from_bits(from.number())
    }
}

impl Take for () {
    fn take(_: &mut Reader<'_>) -> Self {}
}

impl Take for String {
    fn take(from: &mut Reader<'_>) -> Self {
        text(from.blob())
    }
}

impl<T: Take> Take for Vec<T> {
    fn take(from: &mut Reader<'_>) -> Self {
        T::take_list(from)
    }
}

impl<T: Take> Take for Option<T> {
    fn take(from: &mut Reader<'_>) -> Self {
        (from.number() != 0).then(|| from.take())
    }
}

impl<T: Take, E: Take> Take for Result<T, E> {
    fn take(from: &mut Reader<'_>) -> Self {
        if from.number() != 0 {
            Ok(from.take())
        } else {
            Err(from.take())
        }
    }
}

impl<T: 'static> Take for Resource<T> {
    fn take(from: &mut Reader<'_>) -> Self {
        Resource::new_own(from.take())
    }
}

macro_rules! take_tuples {
    ($(($($item:ident),*))*) => { $(
        impl<$($item: Take),*> Take for ($($item,)*) {
            fn take(from: &mut Reader<'_>) -> Self {
                ($(from.take::<$item>(),)*)
            }
        }
    )* };
}
take_tuples!((A)(A, B)(A, B, C)(A, B, C, D));

/// Appends a number to the reply.
#[no_mangle]
pub unsafe extern "C" fn pie_reply_number(reply: *mut Reply, number: u64) {
    guarded((), || (*reply).numbers.push(number))
}

/// Appends a string or a list of bytes.
#[no_mangle]
pub unsafe extern "C" fn pie_reply_bytes(reply: *mut Reply, bytes: Str) {
    guarded((), || (*reply).blobs.push(bytes.as_bytes().to_vec()))
}

/// Appends a list of 32-bit items.
#[no_mangle]
pub unsafe extern "C" fn pie_reply_words(reply: *mut Reply, words: List<u32>) {
    guarded((), || (*reply).words.push(words.as_slice().to_vec()))
}

/// Sets the text of the error with which the call ends.
#[no_mangle]
pub unsafe extern "C" fn pie_reply_error(reply: *mut Reply, text: Str) {
    guarded((), || (*reply).error = text.as_bytes().to_vec())
}

/// Makes an empty reply, for tests of C++. Free it with `pie_reply_free`.
#[no_mangle]
pub extern "C" fn pie_reply_new() -> *mut Reply {
    Box::into_raw(Box::default())
}

/// The text of the error, valid until the reply is written or freed.
#[no_mangle]
pub unsafe extern "C" fn pie_reply_read_error(reply: *const Reply) -> Str {
    Str::bytes(&(*reply).error)
}

#[no_mangle]
pub unsafe extern "C" fn pie_reply_free(reply: *mut Reply) {
    drop(Box::from_raw(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(reply: &mut Reply, numbers: &[u64], blobs: &[&str], words: &[&[u32]]) {
        unsafe {
            numbers
                .iter()
                .for_each(|number| pie_reply_number(reply, *number));
            blobs
                .iter()
                .for_each(|blob| pie_reply_bytes(reply, Str::of(blob)));
            words
                .iter()
                .for_each(|list| pie_reply_words(reply, List::of(list)));
        }
    }

    #[test]
    fn reads_what_was_written_in_order() {
        let mut reply = Reply::default();
        put(
            &mut reply,
            &[1, 2, u64::MAX],
            &["a", "b"],
            &[&[1, 2], &[0x3f80_0000]],
        );
        type Nested = (Option<Vec<String>>, (Vec<u32>, Vec<f32>), i32);
        let read: Nested = reply.take();
        let expected = (
            Some(vec!["a".into(), "b".into()]),
            (vec![1, 2], vec![1.0]),
            -1,
        );
        assert_eq!(read, expected);
    }

    #[test]
    fn keeps_floats_whole() {
        let mut reply = Reply::default();
        put(
            &mut reply,
            &[(-0.5f32).to_bits().into(), f64::MAX.to_bits()],
            &[],
            &[],
        );
        assert_eq!(reply.take::<(f32, f64)>(), (-0.5, f64::MAX));
    }

    #[test]
    fn tells_results_apart() {
        let mut reply = Reply::default();
        put(&mut reply, &[1], &["fine"], &[]);
        assert_eq!(reply.take::<Result<String, Vec<u8>>>(), Ok("fine".into()));
        put(&mut reply, &[0], &["bad"], &[]);
        assert_eq!(
            reply.take::<Result<String, Vec<u8>>>(),
            Err(b"bad".to_vec())
        );
        put(&mut reply, &[0], &[], &[]);
        assert_eq!(reply.take::<Option<Option<u32>>>(), None);
    }

    #[test]
    fn is_empty_after_an_error() {
        let mut reply = Reply::default();
        put(&mut reply, &[1, 2], &["half"], &[&[1]]);
        unsafe { pie_reply_error(&mut reply, Str::bytes(b"bad \xff")) };
        assert_eq!(reply.take_error(), "bad \u{fffd}");
        put(&mut reply, &[7], &[], &[]);
        assert_eq!(reply.take::<u32>(), 7);
        assert!(reply.blobs.is_empty() && reply.words.is_empty());
    }

    #[test]
    #[should_panic(expected = "C++ writes every part of a result")]
    fn a_part_that_is_missing_is_our_own_bug() {
        Reply::default().take::<String>();
    }
}
