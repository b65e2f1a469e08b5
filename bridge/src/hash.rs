//! blake3 hashes, which identify programs and files in the protocol.
use crate::abi::{guarded, Str};

/// Writes the 32 bytes of the hash of `bytes` to `hash`.
#[no_mangle]
pub unsafe extern "C" fn pie_blake3(bytes: Str, hash: *mut u8) {
    guarded((), || {
        let digest = blake3::hash(bytes.as_bytes());
        std::ptr::copy_nonoverlapping(digest.as_bytes().as_ptr(), hash, blake3::OUT_LEN);
    })
}
