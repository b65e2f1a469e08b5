//! Timers. They run beside everything else that the inferlet waits for.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::executor::ready;
use crate::wasi::clocks::monotonic_clock::subscribe_duration;

/// Sleeps without holding up other futures.
pub async fn sleep(duration: Duration) {
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    ready(subscribe_duration(nanoseconds)).await
}

/// Waits for a future for at most this time, then drops it.
///
/// ```ignore
/// let message = timeout(Duration::from_secs(5), session::receive().wait_async()).await?;
/// ```
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = pin!(future);
    let mut timer = pin!(sleep(duration));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        timer.as_mut().poll(cx).map(|()| Err(Elapsed(duration)))
    })
    .await
}

/// The error of [`timeout`]: the time was over first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(Duration);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer within {:?}", self.0)
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for String {
    fn from(elapsed: Elapsed) -> String {
        elapsed.to_string()
    }
}
