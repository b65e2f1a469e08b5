/// What a process can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// What was printed, or sent by `session.send`.
    Stdout(String),
    Stderr(String),
    Message(String),
    File(Vec<u8>),
    /// The last one of a process that ended well: what its `main` returned.
    Return(String),
    /// The last one of a process that did not.
    Error(String),
}

impl ProcessEvent {
    /// Whether nothing comes behind it.
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
