//! A process on the server.

use crate::client::Client;
use crate::error::{Error, Result};
use crate::event::ProcessEvent;
use crate::mailbox::Mailbox;
use std::sync::Arc;
use std::time::Duration;

/// A process on the server. [`recv`](Process::recv) gives its events in order.
///
/// Dropping this object does not end the process; its later events are dropped.
pub struct Process {
    client: Client,
    mailbox: Arc<Mailbox>,
}

impl Process {
    pub(crate) fn new(client: Client, mailbox: Arc<Mailbox>) -> Self {
        Process { client, mailbox }
    }

    /// The id of the process, which `Client::attach_process` takes.
    pub fn id(&self) -> &str {
        &self.mailbox.id
    }

    /// Returns the next event, or [`Error::Ended`] after the last one. If the connection broke, returns
    /// [`Error::ConnectionLost`] after all events that arrived before were taken.
    pub async fn recv(&self) -> Result<ProcessEvent> {
        self.mailbox.next().await
    }

    /// Does the same as `recv`, but fails with [`Error::Timeout`] after `limit`.
    pub async fn recv_timeout(&self, limit: Duration) -> Result<ProcessEvent> {
        tokio::time::timeout(limit, self.recv()).await.unwrap_or_else(|_| {
            Err(Error::Timeout(format!("process {} sent no event within {limit:?}", self.id())))
        })
    }

    /// Returns the next event, or None after the last one.
    pub async fn next(&self) -> Option<Result<ProcessEvent>> {
        if self.mailbox.last_taken() {
            return None;
        }
        Some(self.recv().await)
    }

    /// Returns the next text that the process sends or prints, or None when it has returned. Skips other
    /// events. Returns [`Error::Process`] if the process fails.
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

    /// Returns all text that the process sends and prints until it ends.
    pub async fn text(&self) -> Result<String> {
        let mut whole = String::new();
        while let Some(part) = self.next_text().await? {
            whole.push_str(&part);
        }
        Ok(whole)
    }

    /// Waits for the end and returns the return value. Skips all other events.
    pub async fn result(&self) -> Result<String> {
        while self.next_text().await?.is_some() {}
        Ok(self.return_value().unwrap_or_default())
    }

    /// The return value, or None before it has arrived.
    pub fn return_value(&self) -> Option<String> {
        match self.mailbox.end() {
            Some(ProcessEvent::Return(value)) => Some(value),
            _ => None,
        }
    }

    /// Whether the last event has arrived.
    pub fn ended(&self) -> bool {
        self.mailbox.end().is_some()
    }

    /// The number of events that have arrived. Another client can pass it to [`Client::attach_process`]
    /// to continue from there. None if the events are not numbered.
    pub fn seen(&self) -> Option<u64> {
        self.mailbox.seen()
    }

    /// Drops all events but the last, now and in future, so that unread events do not stop the
    /// connection from reading.
    pub fn discard(&self) {
        self.mailbox.discard();
    }

    /// Sends a message to the process, which gets it from `session::receive`.
    pub async fn signal(&self, message: &str) -> Result<()> {
        self.client.signal_process(self.id(), message).await
    }

    /// Sends a file to the process, which gets it from `session::receive_file`.
    pub async fn transfer_file(&self, data: &[u8]) -> Result<()> {
        self.client.transfer_file(self.id(), data).await
    }

    /// Cancels the process. Its last event will be the error `cancelled`.
    pub async fn terminate(&self) -> Result<()> {
        self.client.terminate_process(self.id()).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.mailbox.discard();
    }
}
