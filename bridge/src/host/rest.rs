//! pie:core/adapter, pie:zo and pie:mcp.
use super::handles::{Adapter, ForwardPass, McpSession, Model};
use super::{own, Answer, HandleKind};
use crate::abi::Str;
use crate::host::pie::{core::adapter, mcp, zo::zo};
use crate::wasm::Guest;
use wasmtime::component::Resource;
use wasmtime::Result;

impl adapter::Host for Guest {}

impl adapter::HostAdapter for Guest {
    fn create(&mut self, model: Resource<Model>, name: String) -> Answer<Resource<Adapter>> {
        let (mut adapter, name) = (0, Str::of(&name));
        let made =
            self.call(|t, g, out| (t.adapter_create)(g, model.rep(), name, &mut adapter, out));
        Ok(made.map(|_| own(adapter)))
    }
    fn open(&mut self, model: Resource<Model>, name: String) -> Result<Option<Resource<Adapter>>> {
        let (mut adapter, mut found) = (0, false);
        let name = Str::of(&name);
        self.must(|t, g, out| {
            (t.adapter_open)(g, model.rep(), name, &mut adapter, &mut found, out)
        })?;
        Ok(found.then(|| own(adapter)))
    }
    fn destroy(&mut self, adapter: Resource<Adapter>) -> Result<()> {
        self.must(|t, g, out| (t.adapter_destroy)(g, adapter.rep(), out))
            .map(|_| ())
    }
    fn fork(&mut self, adapter: Resource<Adapter>, name: String) -> Result<Resource<Adapter>> {
        let (mut copy, name) = (0, Str::of(&name));
        self.must(|t, g, out| (t.adapter_fork)(g, adapter.rep(), name, &mut copy, out))?;
        Ok(own(copy))
    }
    fn load(&mut self, adapter: Resource<Adapter>, path: String) -> Answer<()> {
        let done = self.call(|t, g, out| (t.adapter_load)(g, adapter.rep(), Str::of(&path), out));
        Ok(done.map(|_| ()))
    }
    fn save(&mut self, adapter: Resource<Adapter>, path: String) -> Answer<()> {
        let done = self.call(|t, g, out| (t.adapter_save)(g, adapter.rep(), Str::of(&path), out));
        Ok(done.map(|_| ()))
    }
    fn drop(&mut self, adapter: Resource<Adapter>) -> Result<()> {
        self.drop_handle(HandleKind::Adapter, adapter.rep())
    }
}

impl zo::Host for Guest {
    fn adapter_seed(&mut self, pass: Resource<ForwardPass>, seed: i64) -> Result<()> {
        self.must(|t, g, out| (t.zo_adapter_seed)(g, pass.rep(), seed, out))
            .map(|_| ())
    }
    fn initialize(
        &mut self,
        adapter: Resource<Adapter>,
        rank: u32,
        alpha: f32,
        population_size: u32,
        mu_fraction: f32,
        initial_sigma: f32,
    ) -> Answer<()> {
        let a = adapter.rep();
        let done = self.call(|t, g, out| {
            (t.zo_initialize)(
                g,
                a,
                rank,
                alpha,
                population_size,
                mu_fraction,
                initial_sigma,
                out,
            )
        });
        Ok(done.map(|_| ()))
    }
    fn update(
        &mut self,
        adapter: Resource<Adapter>,
        scores: Vec<f32>,
        seeds: Vec<i64>,
        max_sigma: f32,
    ) -> Answer<()> {
        if scores.len() != seeds.len() {
            return Ok(Err(format!(
                "{} scores for {} seeds",
                scores.len(),
                seeds.len()
            )));
        }
        let (a, scores, seeds, count) =
            (adapter.rep(), scores.as_ptr(), seeds.as_ptr(), scores.len());
        let done = self.call(|t, g, out| (t.zo_update)(g, a, scores, seeds, count, max_sigma, out));
        Ok(done.map(|_| ()))
    }
}

type McpAnswer<T> = Result<std::result::Result<T, mcp::types::Error>>;

impl mcp::types::Host for Guest {}

impl mcp::client::Host for Guest {
    fn available_servers(&mut self) -> Result<Vec<String>> {
        Ok(self
            .must(|t, g, out| (t.mcp_available_servers)(g, out))?
            .into_texts())
    }
    fn connect(&mut self, name: String) -> McpAnswer<Resource<McpSession>> {
        let (mut session, mut code) = (0, 0);
        let name = Str::of(&name);
        let made = self.call(|t, g, out| (t.mcp_connect)(g, name, &mut session, &mut code, out));
        Ok(made
            .map(|_| own(session))
            .map_err(|message| mcp_error(code, message)))
    }
}

fn mcp_error(code: i32, message: String) -> mcp::types::Error {
    mcp::types::Error {
        code,
        message,
        data: None,
    }
}

impl Guest {
    fn mcp(&mut self, session: u32, method: &str, name: &str, args: &str) -> McpAnswer<String> {
        let mut code = 0;
        let (method, name, args) = (Str::of(method), Str::of(name), Str::of(args));
        let made =
            self.call(|t, g, out| (t.mcp_call)(g, session, method, name, args, &mut code, out));
        Ok(made
            .map(|out| out.into_text())
            .map_err(|message| mcp_error(code, message)))
    }
}

impl mcp::client::HostSession for Guest {
    fn list_tools(&mut self, s: Resource<McpSession>) -> McpAnswer<String> {
        self.mcp(s.rep(), "tools/list", "", "")
    }
    fn call_tool(
        &mut self,
        s: Resource<McpSession>,
        name: String,
        args: String,
    ) -> McpAnswer<String> {
        self.mcp(s.rep(), "tools/call", &name, &args)
    }
    fn list_resources(&mut self, s: Resource<McpSession>) -> McpAnswer<String> {
        self.mcp(s.rep(), "resources/list", "", "")
    }
    fn read_resource(&mut self, s: Resource<McpSession>, uri: String) -> McpAnswer<String> {
        self.mcp(s.rep(), "resources/read", &uri, "")
    }
    fn list_prompts(&mut self, s: Resource<McpSession>) -> McpAnswer<String> {
        self.mcp(s.rep(), "prompts/list", "", "")
    }
    fn get_prompt(
        &mut self,
        s: Resource<McpSession>,
        name: String,
        args: String,
    ) -> McpAnswer<String> {
        self.mcp(s.rep(), "prompts/get", &name, &args)
    }
    fn drop(&mut self, session: Resource<McpSession>) -> Result<()> {
        self.drop_handle(HandleKind::McpSession, session.rep())
    }
}
