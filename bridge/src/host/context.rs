//! pie:core/model, pie:core/context and pie:core/scheduling.
use super::handles::{Context, Model, Tokenizer};
use super::{own, Answer, HandleKind};
use crate::abi::{Str, Words};
use crate::host::pie::core::{context, model, scheduling};
use crate::wasm::Guest;
use wasmtime::component::Resource;
use wasmtime::Result;

impl model::Host for Guest {}

impl model::HostModel for Guest {
    fn load(&mut self, name: String) -> Answer<Resource<Model>> {
        let mut model = 0;
        let loaded = self.call(|t, g, out| (t.model_load)(g, Str::of(&name), &mut model, out));
        Ok(loaded.map(|_| own(model)))
    }
    fn tokenizer(&mut self, model: Resource<Model>) -> Result<Resource<Tokenizer>> {
        let mut tokenizer = 0;
        self.must(|t, g, out| (t.model_tokenizer)(g, model.rep(), &mut tokenizer, out))?;
        Ok(own(tokenizer))
    }
    fn drop(&mut self, model: Resource<Model>) -> Result<()> {
        self.drop_handle(HandleKind::Model, model.rep())
    }
}

impl model::HostTokenizer for Guest {
    fn encode(&mut self, tokenizer: Resource<Tokenizer>, text: String) -> Result<Vec<u32>> {
        let out =
            self.must(|t, g, out| (t.tokenizer_encode)(g, tokenizer.rep(), Str::of(&text), out))?;
        Ok(out.words)
    }
    fn decode(&mut self, tokenizer: Resource<Tokenizer>, tokens: Vec<u32>) -> Answer<String> {
        let decoded = self
            .call(|t, g, out| (t.tokenizer_decode)(g, tokenizer.rep(), Words::of(&tokens), out));
        Ok(decoded.map(|out| out.into_text()))
    }
    fn vocabs(&mut self, tokenizer: Resource<Tokenizer>) -> Result<(Vec<u32>, Vec<Vec<u8>>)> {
        let out = self.must(|t, g, out| (t.tokenizer_vocabs)(g, tokenizer.rep(), out))?;
        Ok((out.words, out.blobs))
    }
    fn special_tokens(
        &mut self,
        tokenizer: Resource<Tokenizer>,
    ) -> Result<(Vec<u32>, Vec<Vec<u8>>)> {
        let out = self.must(|t, g, out| (t.tokenizer_special_tokens)(g, tokenizer.rep(), out))?;
        Ok((out.words, out.blobs))
    }
    fn split_regex(&mut self, tokenizer: Resource<Tokenizer>) -> Result<String> {
        let out = self.must(|t, g, out| (t.tokenizer_split_regex)(g, tokenizer.rep(), out))?;
        Ok(out.into_text())
    }
    fn drop(&mut self, tokenizer: Resource<Tokenizer>) -> Result<()> {
        self.drop_handle(HandleKind::Tokenizer, tokenizer.rep())
    }
}

impl context::Host for Guest {}

impl context::HostContext for Guest {
    fn create(&mut self, model: Resource<Model>) -> Answer<Resource<Context>> {
        let mut context = 0;
        let made = self.call(|t, g, out| (t.context_create)(g, model.rep(), &mut context, out));
        Ok(made.map(|_| own(context)))
    }
    fn open(&mut self, model: Resource<Model>, name: String) -> Answer<Resource<Context>> {
        let (mut context, name) = (0, Str::of(&name));
        let opened =
            self.call(|t, g, out| (t.context_open)(g, model.rep(), name, &mut context, out));
        Ok(opened.map(|_| own(context)))
    }
    fn take(&mut self, model: Resource<Model>, name: String) -> Answer<Resource<Context>> {
        let (mut context, name) = (0, Str::of(&name));
        let taken =
            self.call(|t, g, out| (t.context_take)(g, model.rep(), name, &mut context, out));
        Ok(taken.map(|_| own(context)))
    }
    fn delete(&mut self, model: Resource<Model>, name: String) -> Answer<()> {
        let deleted =
            self.call(|t, g, out| (t.context_delete)(g, model.rep(), Str::of(&name), out));
        Ok(deleted.map(|_| ()))
    }
    fn fork(&mut self, context: Resource<Context>) -> Answer<Resource<Context>> {
        let mut child = 0;
        let forked = self.call(|t, g, out| (t.context_fork)(g, context.rep(), &mut child, out));
        Ok(forked.map(|_| own(child)))
    }
    async fn save(&mut self, context: Resource<Context>, name: String) -> Answer<()> {
        let mut saving = 0;
        let begun = self
            .call(|t, g, out| (t.context_save)(g, context.rep(), Str::of(&name), &mut saving, out));
        match begun {
            Ok(_) => Ok(self.saved(saving).await?.map(|_| ())),
            Err(error) => Ok(Err(error)),
        }
    }
    async fn snapshot(&mut self, context: Resource<Context>) -> Answer<String> {
        let mut saving = 0;
        let begun = self.call(|t, g, out| (t.context_snapshot)(g, context.rep(), &mut saving, out));
        match begun {
            Ok(_) => self.saved(saving).await,
            Err(error) => Ok(Err(error)),
        }
    }
    fn destroy(&mut self, context: Resource<Context>) -> Result<()> {
        self.value(|t, g, (), out| (t.context_destroy)(g, context.rep(), out))
    }
    fn tokens_per_page(&mut self, context: Resource<Context>) -> Result<u32> {
        self.value(|t, g, value, out| (t.context_tokens_per_page)(g, context.rep(), value, out))
    }
    fn model(&mut self, context: Resource<Context>) -> Result<Resource<Model>> {
        let mut model = 0;
        self.must(|t, g, out| (t.context_model)(g, context.rep(), &mut model, out))?;
        Ok(own(model))
    }
    fn committed_page_count(&mut self, context: Resource<Context>) -> Result<u32> {
        self.value(|t, g, value, out| {
            (t.context_committed_page_count)(g, context.rep(), value, out)
        })
    }
    fn working_page_count(&mut self, context: Resource<Context>) -> Result<u32> {
        self.value(|t, g, value, out| (t.context_working_page_count)(g, context.rep(), value, out))
    }
    fn working_page_token_count(&mut self, context: Resource<Context>) -> Result<u32> {
        self.value(|t, g, value, out| {
            (t.context_working_page_token_count)(g, context.rep(), value, out)
        })
    }
    fn commit_working_pages(&mut self, context: Resource<Context>, n: u32) -> Answer<()> {
        let done =
            self.call(|t, g, out| (t.context_commit_working_pages)(g, context.rep(), n, out));
        Ok(done.map(|_| ()))
    }
    fn reserve_working_pages(&mut self, context: Resource<Context>, n: u32) -> Answer<()> {
        let done =
            self.call(|t, g, out| (t.context_reserve_working_pages)(g, context.rep(), n, out));
        Ok(done.map(|_| ()))
    }
    fn release_working_pages(&mut self, context: Resource<Context>, n: u32) -> Result<()> {
        self.value(|t, g, (), out| (t.context_release_working_pages)(g, context.rep(), n, out))
    }
    fn truncate_working_page_tokens(&mut self, context: Resource<Context>, n: u32) -> Result<()> {
        self.value(|t, g, (), out| {
            (t.context_truncate_working_page_tokens)(g, context.rep(), n, out)
        })
    }
    fn suspend(&mut self, context: Resource<Context>) -> Answer<()> {
        let done = self.call(|t, g, out| (t.context_suspend)(g, context.rep(), out));
        Ok(done.map(|_| ()))
    }
    fn bid(&mut self, context: Resource<Context>, value: f64) -> Result<()> {
        self.value(|t, g, (), out| (t.context_bid)(g, context.rep(), value, out))
    }
    fn drop(&mut self, context: Resource<Context>) -> Result<()> {
        self.drop_handle(HandleKind::Context, context.rep())
    }
}

impl scheduling::Host for Guest {
    fn price(&mut self) -> Result<f64> {
        self.value(|t, g, value, out| (t.scheduling_price)(g, value, out))
    }
    fn rent(&mut self, context: Resource<Context>) -> Result<f64> {
        self.value(|t, g, value, out| (t.scheduling_rent)(g, context.rep(), value, out))
    }
    fn dividend(&mut self, model: Resource<Model>) -> Result<f64> {
        self.value(|t, g, value, out| (t.scheduling_dividend)(g, model.rep(), value, out))
    }
    fn latency(&mut self, context: Resource<Context>) -> Result<f64> {
        self.value(|t, g, value, out| (t.scheduling_latency)(g, context.rep(), value, out))
    }
    fn balance(&mut self, model: Resource<Model>) -> Result<f64> {
        self.value(|t, g, value, out| (t.scheduling_balance)(g, model.rep(), value, out))
    }
}
