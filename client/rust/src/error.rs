use std::fmt;

/// What can go wrong. The text says what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server answered a request with a refusal; the text is the server's.
    Server(String),
    /// The server does not believe who this client says it is.
    Auth(String),
    /// There is no connection, or it broke. [`Client::reconnect`](crate::Client::reconnect) takes
    /// up where it ended.
    ConnectionLost(String),
    /// Nothing came within the time that was given. The connection is still good.
    Timeout(String),
    /// The process ended with an Error event; the text is its own.
    Process(String),
    /// The last word of the process was taken already: there is nothing more to wait for.
    Ended(String),
    /// A file arrived that is not what its hash says.
    Integrity(String),
    /// A message of this size would be refused; nothing was sent.
    TooLarge(String),
    /// This is no private key that can be used.
    Key(String),
    /// A file of this machine cannot be read.
    Io(String),
}

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
