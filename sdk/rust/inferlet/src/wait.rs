//! `async` for the engine's future resources: ask, else wait for the pollable, then ask again.

use std::future::Future;

use crate::executor::ready;
use crate::pie::core::inference::{ForwardPass, FutureOutput, Output};
use crate::pie::core::messaging::Subscription;
use crate::pie::core::runtime::Child;
use crate::pie::core::types::{FutureBlob, FutureString};
use crate::pie::plus::outcome;
use crate::Result;

/// Asks `get` at once. Only if there is no answer yet, a pollable is made; it is dropped before `source`.
macro_rules! answer {
    ($source:expr) => {
        match $source.get() {
            Some(answer) => Some(answer),
            None => {
                ready($source.pollable()).await;
                $source.get()
            }
        }
    };
}

/// Waiting for a text: `session::receive()`, `messaging::pull(…)`.
pub trait FutureStringExt {
    /// The text, or None once its source is gone (the client disconnected).
    fn wait_async(self) -> impl Future<Output = Option<String>>;
}

impl FutureStringExt for FutureString {
    async fn wait_async(self) -> Option<String> {
        answer!(self)
    }
}

/// Waiting for bytes: `session::receive_file()`.
pub trait FutureBlobExt {
    /// The bytes, or None once their source is gone.
    fn wait_async(self) -> impl Future<Output = Option<Vec<u8>>>;
}

impl FutureBlobExt for FutureBlob {
    async fn wait_async(self) -> Option<Vec<u8>> {
        answer!(self)
    }
}

/// Waiting for broadcasts.
pub trait SubscriptionExt {
    /// The next message, or None after `unsubscribe`.
    fn get_async(&self) -> impl Future<Output = Option<String>>;

    /// How many messages were lost because the subscription's buffer was full: the oldest ones.
    fn dropped(&self) -> u64;
}

impl SubscriptionExt for Subscription {
    async fn get_async(&self) -> Option<String> {
        answer!(self)
    }

    fn dropped(&self) -> u64 {
        crate::pie::plus::broadcasts::dropped(self)
    }
}

/// Waiting for an inferlet that this one launched.
pub trait ChildExt {
    /// What the child returned, or why it failed.
    fn wait_async(&self) -> impl Future<Output = Result<String>>;
}

impl ChildExt for Child {
    async fn wait_async(&self) -> Result<String> {
        answer!(self).unwrap_or_else(|| Err("the child inferlet ended without a result".into()))
    }
}

/// Waiting for a queued pass.
pub trait FutureOutputExt {
    /// The pass's output, or why it could not run.
    fn wait_async(&self) -> impl Future<Output = Result<Output>>;
}

impl FutureOutputExt for FutureOutput {
    async fn wait_async(&self) -> Result<Output> {
        let output = answer!(self);
        match output {
            Some(output) if !output.slots.is_empty() => Ok(output),
            // A pass that failed in the queue gives no slots, and so does one that asked for none.
            Some(output) => outcome::failure(self).map_or(Ok(output), Err),
            None => Err(outcome::failure(self).unwrap_or_else(|| "the pass was dropped".into())),
        }
    }
}

/// Running a raw forward pass.
pub trait ForwardPassExt {
    /// Queues the pass and waits for its output.
    fn execute_async(&self) -> impl Future<Output = Result<Output>>;
}

impl ForwardPassExt for ForwardPass {
    async fn execute_async(&self) -> Result<Output> {
        let output = self.execute()?;
        output.wait_async().await
    }
}
