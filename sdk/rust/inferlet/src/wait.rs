//! `async` for the engine's future resources: ask for the answer; if there is none yet, wait for the pollable and ask
//! again.

use std::future::Future;

use crate::executor::ready;
use crate::pie::core::inference::{ForwardPass, FutureOutput, Output};
use crate::pie::core::messaging::Subscription;
use crate::pie::core::runtime::Child;
use crate::pie::core::types::{FutureBlob, FutureString};
use crate::pie::plus::outcome;
use crate::Result;

/// Calls `get` at once. Makes a pollable only if there is no answer yet, and drops it before `source`.
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
    /// Waits for the text. Returns None if its source is gone, for example because the client has disconnected.
    fn wait_async(self) -> impl Future<Output = Option<String>>;
}

impl FutureStringExt for FutureString {
    async fn wait_async(self) -> Option<String> {
        answer!(self)
    }
}

/// Waiting for bytes: `session::receive_file()`.
pub trait FutureBlobExt {
    /// Waits for the bytes. Returns None if their source is gone.
    fn wait_async(self) -> impl Future<Output = Option<Vec<u8>>>;
}

impl FutureBlobExt for FutureBlob {
    async fn wait_async(self) -> Option<Vec<u8>> {
        answer!(self)
    }
}

/// Waiting for broadcasts.
pub trait SubscriptionExt {
    /// Waits for the next message. Returns None after `unsubscribe`.
    fn get_async(&self) -> impl Future<Output = Option<String>>;

    /// How many messages were dropped, oldest first, because the subscription's buffer was full.
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
    /// Waits for the child's end. Returns its return value, or its error.
    fn wait_async(&self) -> impl Future<Output = Result<String>>;
}

impl ChildExt for Child {
    async fn wait_async(&self) -> Result<String> {
        answer!(self).unwrap_or_else(|| Err("the child inferlet ended without a result".into()))
    }
}

/// Waiting for a queued pass.
pub trait FutureOutputExt {
    /// Waits for the pass. Returns its output, or the reason why it could not run.
    fn wait_async(&self) -> impl Future<Output = Result<Output>>;
}

impl FutureOutputExt for FutureOutput {
    async fn wait_async(&self) -> Result<Output> {
        let output = answer!(self);
        match output {
            Some(output) if !output.slots.is_empty() => Ok(output),
            // A pass that failed in the queue has no slots, and neither has a pass that asked for none.
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
