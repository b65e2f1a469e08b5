//! Messages between inferlets of one engine: queues and broadcasts.
//!
//! `push`, `pull`, `broadcast` and `subscribe` end the run when the engine refuses them, for example because a queue is
//! full. The forms that begin with `try_` return the error instead.

pub use crate::pie::core::messaging::{broadcast, pull, push, subscribe, Subscription};
use crate::pie::core::types::FutureString;
use crate::pie::plus::fallible;
use crate::Result;

/// Like [`push`]. Fails if the queue or the user's message memory is full, or if the topic or message is too long.
pub fn try_push(topic: &str, message: &str) -> Result<()> {
    fallible::push(topic, message)
}

/// Like [`pull`]. Fails if the topic's name is too long or too many topics are in use.
pub fn try_pull(topic: &str) -> Result<FutureString> {
    fallible::pull(topic)
}

/// Like [`broadcast`]. Fails if the user's message memory is full, or if the topic or message is too long.
pub fn try_broadcast(topic: &str, message: &str) -> Result<()> {
    fallible::broadcast(topic, message)
}

/// Like [`subscribe`]. Fails if the topic's name is too long or too many topics are in use.
pub fn try_subscribe(topic: &str) -> Result<Subscription> {
    fallible::subscribe(topic)
}
