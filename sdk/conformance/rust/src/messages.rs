//! Cases about waiting: timers, the session, messages.

use std::cell::RefCell;
use std::time::Duration;

use futures::future::join_all;
use futures::FutureExt;
use inferlet::pie::core::session;
use inferlet::prelude::*;
use inferlet::time::sleep;
use serde_json::{json, Value};

use crate::Input;

pub async fn sleep_order() -> Result<Value> {
    let ended = RefCell::new(Vec::new());
    let sleeps = [30, 10, 20].map(|ms| {
        let ended = &ended;
        async move {
            sleep(Duration::from_millis(ms)).await;
            ended.borrow_mut().push(ms);
        }
    });
    join_all(sleeps).await;
    Ok(json!(ended.into_inner()))
}

pub async fn timeout(input: &Input) -> Result<Value> {
    let mut message = Box::pin(session::receive().wait_async().fuse());
    let mut timer = Box::pin(sleep(Duration::from_millis(input.ms)).fuse());
    Ok(futures::select! {
        text = message => json!(text),
        () = timer => json!("timeout"),
    })
}

pub async fn push_pull(input: &Input) -> Result<Value> {
    messaging::push(&input.topic, "one");
    messaging::push(&input.topic, "two");
    let first = messaging::pull(&input.topic).wait_async().await;
    let second = messaging::pull(&input.topic).wait_async().await;
    Ok(json!([first, second]))
}

pub async fn overflow(input: &Input) -> Result<Value> {
    let subscription = messaging::subscribe(&input.topic);
    let before = subscription.dropped();
    for i in 0..input.n {
        messaging::broadcast(&input.topic, &i.to_string());
    }
    let (dropped, first) = (subscription.dropped(), subscription.get_async().await);
    Ok(json!({ "before": before, "dropped": dropped, "first": first }))
}

pub async fn push_wait(input: &Input) -> Result<Value> {
    let refused = || messaging::try_push(&input.topic, "message").is_err();
    let mut queued = 0;
    while !refused() {
        queued += 1;
    }
    let pull = messaging::pull(&input.topic);
    let push = messaging::push_wait(&input.topic, "last");
    let (pushed, first) = futures::join!(push, pull.wait_async());
    pushed?;
    let (again, mut last) = (refused(), None);
    for _ in 0..queued {
        last = messaging::pull(&input.topic).wait_async().await;
    }
    Ok(json!({ "refused": true, "first": first, "refused_again": again, "last": last }))
}

pub async fn broadcast(input: &Input) -> Result<Value> {
    let subscription = messaging::subscribe(&input.topic);
    messaging::broadcast(&input.topic, "x");
    Ok(json!(subscription.get_async().await))
}
