//! The channel to the client that launched this inferlet.
//!
//! `send` and `send_file` end the run when the engine refuses what is sent. The forms that begin with `try_` return the
//! error instead.

pub use crate::pie::core::session::{receive, receive_file, send, send_file};
use crate::pie::plus::fallible;
use crate::Result;

/// Like [`send`]. Fails if the message is too long.
pub fn try_send(message: &str) -> Result<()> {
    fallible::send(message)
}

/// Like [`send_file`]. Fails if the file is too long.
pub fn try_send_file(data: &[u8]) -> Result<()> {
    fallible::send_file(data)
}
