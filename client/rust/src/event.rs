//! The events of a process.

/// An event of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Text that the process printed, or sent with `session.send`.
    Stdout(String),
    /// Text that the process wrote to stderr.
    Stderr(String),
    /// A message. The server of this tree sends `Stdout` instead.
    Message(String),
    /// The bytes of a file that the process sent.
    File(Vec<u8>),
    /// The last event of a process that succeeded. The value is the return value of its `main`.
    Return(String),
    /// The last event of a process that failed.
    Error(String),
}

impl ProcessEvent {
    /// Whether this is the last event.
    pub fn is_last(&self) -> bool {
        matches!(self, ProcessEvent::Return(_) | ProcessEvent::Error(_))
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            ProcessEvent::File(bytes) => bytes.len(),
            ProcessEvent::Stdout(text)
            | ProcessEvent::Stderr(text)
            | ProcessEvent::Message(text)
            | ProcessEvent::Return(text)
            | ProcessEvent::Error(text) => text.len(),
        }
    }
}
