use crate::client::Client;
use crate::error::{Error, Result};
use crate::event::ProcessEvent;
use crate::mailbox::Mailbox;
use std::sync::Arc;
use std::time::Duration;

/// A process on the server. What it says comes by [`recv`](Process::recv), in order.
///
/// Dropping this does not end the process; what it says from then on is dropped too.
pub struct Process {
    client: Client,
    mailbox: Arc<Mailbox>,
}

impl Process {
    pub(crate) fn new(client: Client, mailbox: Arc<Mailbox>) -> Self {
        Process { client, mailbox }
    }

    pub fn id(&self) -> &str {
        &self.mailbox.id
    }

    /// The next event. [`Error::Ended`] behind the last one, [`Error::ConnectionLost`] when what came
    /// before the connection broke has all been taken.
    pub async fn recv(&self) -> Result<ProcessEvent> {
        self.mailbox.next().await
    }

    /// The same, for at most so long.
    pub async fn recv_timeout(&self, limit: Duration) -> Result<ProcessEvent> {
        tokio::time::timeout(limit, self.recv()).await.unwrap_or_else(|_| {
            Err(Error::Timeout(format!("process {} said nothing for {limit:?}", self.id())))
        })
    }

    /// Every event, the last one too; None behind it.
    pub async fn next(&self) -> Option<Result<ProcessEvent>> {
        if self.mailbox.last_taken() {
            return None;
        }
        Some(self.recv().await)
    }

    /// The next of what it sends and prints; None when it has returned. Other events are passed over.
    /// [`Error::Process`] if it fails.
    pub async fn next_text(&self) -> Result<Option<String>> {
        while let Some(event) = self.next().await {
            match event? {
                ProcessEvent::Stdout(text) => return Ok(Some(text)),
                ProcessEvent::Error(text) => return Err(Error::Process(text)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// All that it sends and prints until it ends.
    pub async fn text(&self) -> Result<String> {
        let mut whole = String::new();
        while let Some(part) = self.next_text().await? {
            whole.push_str(&part);
        }
        Ok(whole)
    }

    /// What it returns; all else that it says is passed over.
    pub async fn result(&self) -> Result<String> {
        while self.next_text().await?.is_some() {}
        Ok(self.return_value().unwrap_or_default())
    }

    /// What it returned, once that has arrived.
    pub fn return_value(&self) -> Option<String> {
        match self.mailbox.end() {
            Some(ProcessEvent::Return(value)) => Some(value),
            _ => None,
        }
    }

    /// Whether its last word has arrived.
    pub fn ended(&self) -> bool {
        self.mailbox.end().is_some()
    }

    /// How many of its events have arrived: what [`Client::attach_process`] of another client goes on
    /// from. None if it was attached without.
    pub fn seen(&self) -> Option<u64> {
        self.mailbox.seen()
    }

    /// Nobody will listen: what it says is dropped, so that it does not keep the connection from
    /// reading. Only its end is kept.
    pub fn discard(&self) {
        self.mailbox.discard();
    }

    /// Puts a message into its inbox (`session::receive`).
    pub async fn signal(&self, message: &str) -> Result<()> {
        self.client.signal_process(self.id(), message).await
    }

    /// Sends a file (`session::receive_file`).
    pub async fn transfer_file(&self, data: &[u8]) -> Result<()> {
        self.client.transfer_file(self.id(), data).await
    }

    /// Ends it; its last event will be the error `cancelled`.
    pub async fn terminate(&self) -> Result<()> {
        self.client.terminate_process(self.id()).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.mailbox.discard();
    }
}
