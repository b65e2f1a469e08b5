//! Messages between inferlets of one engine: queues and broadcasts.
//!
//! `push`, `pull`, `broadcast` and `subscribe` end the run when the engine refuses them, for example because a topic's
//! name is too long. The forms that begin with `try_` return the error instead. A full queue does not end the run:
//! `push` waits for room.

use std::time::Duration;

use crate::executor::block_on;
pub use crate::pie::core::messaging::{broadcast, pull, subscribe, Subscription};
use crate::pie::core::types::FutureString;
use crate::pie::plus::fallible;
use crate::time;
use crate::Result;

/// How the engine's error for a full queue begins.
const FULL: &str = "the queue is full";
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Appends to a queue; one `pull` takes each message. Waits while the queue is full, and blocks the whole program
/// meanwhile. [`push_wait`] blocks only its own task, and [`try_push`] fails instead.
pub fn push(topic: &str, message: &str) {
    if let Err(error) = block_on(push_wait(topic, message)) {
        panic!("{error}");
    }
}

/// Like [`push`]. Waits while the queue is full, and fails for any other reason.
pub async fn push_wait(topic: &str, message: &str) -> Result<()> {
    let mut pause = Duration::from_millis(1);
    loop {
        match try_push(topic, message) {
            Err(error) if error.starts_with(FULL) => time::sleep(pause).await,
            done => return done,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

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
