//! pie:core/types, runtime, messaging and session: what crosses the guest's border as text or bytes.
use super::handles::{Child, FutureBlob, FutureText, Subscription};
use super::{own, Answer, HandleKind};
use crate::abi::Str;
use crate::host::pie::core::{messaging, runtime, session, types};
use crate::wasm::Guest;
use wasmtime::component::Resource;
use wasmtime::Result;
use wasmtime_wasi::p2::DynPollable;

impl types::Host for Guest {}

impl types::HostFutureString for Guest {
    fn pollable(&mut self, future: Resource<FutureText>) -> Result<Resource<DynPollable>> {
        self.subscribe(HandleKind::FutureText, future.rep())
    }
    fn get(&mut self, future: Resource<FutureText>) -> Result<Option<String>> {
        let mut ready = false;
        let out = self.must(|t, g, out| (t.future_text_get)(g, future.rep(), &mut ready, out))?;
        Ok(ready.then(|| out.into_text()))
    }
    fn drop(&mut self, future: Resource<FutureText>) -> Result<()> {
        self.drop_handle(HandleKind::FutureText, future.rep())
    }
}

impl types::HostFutureBlob for Guest {
    fn pollable(&mut self, future: Resource<FutureBlob>) -> Result<Resource<DynPollable>> {
        self.subscribe(HandleKind::FutureBlob, future.rep())
    }
    fn get(&mut self, future: Resource<FutureBlob>) -> Result<Option<Vec<u8>>> {
        let mut ready = false;
        let out = self.must(|t, g, out| (t.future_blob_get)(g, future.rep(), &mut ready, out))?;
        Ok(ready.then_some(out.text))
    }
    fn drop(&mut self, future: Resource<FutureBlob>) -> Result<()> {
        self.drop_handle(HandleKind::FutureBlob, future.rep())
    }
}

impl runtime::Host for Guest {
    fn version(&mut self) -> Result<String> {
        Ok(self
            .must(|t, g, out| (t.runtime_version)(g, out))?
            .into_text())
    }
    fn instance_id(&mut self) -> Result<String> {
        Ok(self
            .must(|t, g, out| (t.runtime_instance_id)(g, out))?
            .into_text())
    }
    fn username(&mut self) -> Result<String> {
        Ok(self
            .must(|t, g, out| (t.runtime_username)(g, out))?
            .into_text())
    }
    fn models(&mut self) -> Result<Vec<String>> {
        Ok(self
            .must(|t, g, out| (t.runtime_models)(g, out))?
            .into_texts())
    }
    fn launch(&mut self, program: String, input: String) -> Answer<Resource<Child>> {
        let mut child = 0;
        let (program, input) = (Str::of(&program), Str::of(&input));
        let launched =
            self.call(|t, g, out| (t.runtime_launch)(g, program, input, &mut child, out));
        Ok(launched.map(|_| own(child)))
    }
}

impl runtime::HostChild for Guest {
    fn pollable(&mut self, child: Resource<Child>) -> Result<Resource<DynPollable>> {
        self.subscribe(HandleKind::Child, child.rep())
    }
    fn get(
        &mut self,
        child: Resource<Child>,
    ) -> Result<Option<std::result::Result<String, String>>> {
        let mut state = 0;
        let out = self.must(|t, g, out| (t.child_get)(g, child.rep(), &mut state, out))?;
        Ok(match state {
            0 => None,
            1 => Some(Ok(out.into_text())),
            _ => Some(Err(out.into_text())),
        })
    }
    fn pid(&mut self, child: Resource<Child>) -> Result<String> {
        Ok(self
            .must(|t, g, out| (t.child_pid)(g, child.rep(), out))?
            .into_text())
    }
    fn cancel(&mut self, child: Resource<Child>) -> Result<()> {
        self.value(|t, g, (), out| (t.child_cancel)(g, child.rep(), out))
    }
    fn drop(&mut self, child: Resource<Child>) -> Result<()> {
        self.drop_handle(HandleKind::Child, child.rep())
    }
}

impl messaging::Host for Guest {
    fn push(&mut self, topic: String, message: String) -> Result<()> {
        let (topic, message) = (Str::of(&topic), Str::of(&message));
        self.value(|t, g, (), out| (t.messaging_push)(g, topic, message, out))
    }
    fn pull(&mut self, topic: String) -> Result<Resource<FutureText>> {
        let (mut future, topic) = (0, Str::of(&topic));
        self.must(|t, g, out| (t.messaging_pull)(g, topic, &mut future, out))?;
        Ok(own(future))
    }
    fn broadcast(&mut self, topic: String, message: String) -> Result<()> {
        let (topic, message) = (Str::of(&topic), Str::of(&message));
        self.value(|t, g, (), out| (t.messaging_broadcast)(g, topic, message, out))
    }
    fn subscribe(&mut self, topic: String) -> Result<Resource<Subscription>> {
        let (mut subscription, topic) = (0, Str::of(&topic));
        self.must(|t, g, out| (t.messaging_subscribe)(g, topic, &mut subscription, out))?;
        Ok(own(subscription))
    }
}

impl messaging::HostSubscription for Guest {
    fn pollable(&mut self, subscription: Resource<Subscription>) -> Result<Resource<DynPollable>> {
        self.subscribe(HandleKind::Subscription, subscription.rep())
    }
    fn get(&mut self, subscription: Resource<Subscription>) -> Result<Option<String>> {
        let mut ready = false;
        let out =
            self.must(|t, g, out| (t.subscription_get)(g, subscription.rep(), &mut ready, out))?;
        Ok(ready.then(|| out.into_text()))
    }
    fn unsubscribe(&mut self, subscription: Resource<Subscription>) -> Result<()> {
        self.value(|t, g, (), out| (t.subscription_unsubscribe)(g, subscription.rep(), out))
    }
    fn drop(&mut self, subscription: Resource<Subscription>) -> Result<()> {
        self.drop_handle(HandleKind::Subscription, subscription.rep())
    }
}

impl session::Host for Guest {
    async fn send(&mut self, message: String) -> Result<()> {
        self.room().await;
        self.value(|t, g, (), out| (t.session_send)(g, Str::of(&message), out))
    }
    fn receive(&mut self) -> Result<Resource<FutureText>> {
        let mut future = 0;
        self.must(|t, g, out| (t.session_receive)(g, &mut future, out))?;
        Ok(own(future))
    }
    async fn send_file(&mut self, data: Vec<u8>) -> Result<()> {
        self.room().await;
        self.value(|t, g, (), out| (t.session_send_file)(g, Str::bytes(&data), out))
    }
    fn receive_file(&mut self) -> Result<Resource<FutureBlob>> {
        let mut future = 0;
        self.must(|t, g, out| (t.session_receive_file)(g, &mut future, out))?;
        Ok(own(future))
    }
}
