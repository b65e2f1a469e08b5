//! What can fail.

use std::fmt;

/// An error. The text says what went wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused a request. The text is the server's.
    Server(String),
    /// The server did not accept the username or its proof.
    Auth(String),
    /// There is no connection, or it broke. [`Client::reconnect`](crate::Client::reconnect) continues
    /// where it stopped.
    ConnectionLost(String),
    /// Nothing arrived within the time-out. The connection still works.
    Timeout(String),
    /// The process ended with an Error event. The text is the process's.
    Process(String),
    /// The last event of the process was taken already; no further event will arrive.
    Ended(String),
    /// A received file does not match its hash.
    Integrity(String),
    /// The message is too large for the server. Nothing was sent.
    TooLarge(String),
    /// The private key cannot be used.
    Key(String),
    /// A local file or value cannot be used.
    Io(String),
}

/// The result of a fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Error::*;
        match self {
            Server(text) | Auth(text) | ConnectionLost(text) | Timeout(text) | Process(text)
            | Ended(text) | Integrity(text) | TooLarge(text) | Key(text) | Io(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {}
