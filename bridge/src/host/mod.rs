//! The interfaces of `wit/`, forwarded to C++ one function at a time: unwrap, call, wrap. One file a package interface.
mod context;
mod inference;
mod instruct;
mod io;
mod rest;
mod table;

use table::HandleKind;
pub use table::HostTable;

use crate::wasm::Guest;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime::Result;
use wasmtime_wasi::p2::{DynPollable, Pollable};

/// Types that stand for C++ objects: a resource's rep is the C++ handle.
pub mod handles {
    pub struct Model;
    pub struct Tokenizer;
    pub struct Context;
    pub struct ForwardPass;
    pub struct FutureOutput;
    pub struct Chain;
    pub struct FutureText;
    pub struct FutureBlob;
    pub struct Child;
    pub struct Subscription;
    pub struct ChatDecoder;
    pub struct ReasoningDecoder;
    pub struct ToolDecoder;
    pub struct Grammar;
    pub struct Matcher;
    pub struct Adapter;
    pub struct McpSession;
}

mod bindings {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "pie:inferlet/imports",
        imports: {
            "pie:core/context.[method]context.save": async | trappable,
            "pie:core/context.[method]context.snapshot": async | trappable,
            "pie:core/session.send": async | trappable,
            "pie:core/session.send-file": async | trappable,
            "pie:plus/steps.finish": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: {
            "wasi:io/poll": wasmtime_wasi::p2::bindings::io::poll,
            "wasi:clocks/monotonic-clock": wasmtime_wasi::p2::bindings::clocks::monotonic_clock,
            "pie:core/model.model": super::handles::Model,
            "pie:core/model.tokenizer": super::handles::Tokenizer,
            "pie:core/context.context": super::handles::Context,
            "pie:core/inference.forward-pass": super::handles::ForwardPass,
            "pie:core/inference.future-output": super::handles::FutureOutput,
            "pie:core/inference.grammar": super::handles::Grammar,
            "pie:core/inference.matcher": super::handles::Matcher,
            "pie:core/types.future-string": super::handles::FutureText,
            "pie:core/types.future-blob": super::handles::FutureBlob,
            "pie:core/runtime.child": super::handles::Child,
            "pie:core/messaging.subscription": super::handles::Subscription,
            "pie:core/adapter.adapter": super::handles::Adapter,
            "pie:instruct/chat.decoder": super::handles::ChatDecoder,
            "pie:instruct/reasoning.decoder": super::handles::ReasoningDecoder,
            "pie:instruct/tool-use.decoder": super::handles::ToolDecoder,
            "pie:mcp/client.session": super::handles::McpSession,
            "pie:plus/chains.chain": super::handles::Chain,
        },
    });
}
pub use bindings::pie;
pub use bindings::pie::core::inference::SlotOutput;

pub fn add_to_linker(linker: &mut Linker<Guest>) -> Result<()> {
    use pie::{core, instruct, mcp, plus, zo};
    // Each interface by itself: the world's own function would link WASI a second time.
    macro_rules! link {
        ($($interface:path),* $(,)?) => {{
            $({ use $interface as interface;
                interface::add_to_linker::<_, HasSelf<Guest>>(linker, |guest| guest)?; })*
        }};
    }
    link!(
        core::types,
        core::runtime,
        core::model,
        core::context,
        core::inference,
        core::adapter,
        core::scheduling,
        core::messaging,
        core::session,
        instruct::chat,
        instruct::reasoning,
        instruct::tool_use,
        mcp::types,
        mcp::client,
        zo::zo,
        plus::sampling,
        plus::outcome,
        plus::turns,
        plus::calls,
        plus::chains,
        plus::steps,
    );
    Ok(())
}

/// What a WIT `result<_, error>` becomes.
type Answer<T> = Result<std::result::Result<T, String>>;

fn own<T: 'static>(handle: u32) -> Resource<T> {
    Resource::new_own(handle)
}

impl Guest {
    fn drop_handle(&mut self, kind: HandleKind, handle: u32) -> Result<()> {
        self.value(|t, g, (), out| (t.handle_drop)(g, kind, handle, out))
    }

    /// Waits while the client is too slow for more.
    async fn room(&mut self) {
        while let Some(mut room) = crate::wasm::room(self.host, self.ptr) {
            room.ready().await;
        }
    }

    /// Waits until a save has ended; the name that it has.
    async fn saved(&mut self, saving: u32) -> Answer<String> {
        let waiter = {
            let mut signal = std::ptr::null();
            let kind = HandleKind::Saving;
            self.must(|t, g, out| (t.handle_signal)(g, kind, saving, &mut signal, out))?;
            unsafe { crate::wasm::waiter(signal) }
        };
        if let Some(mut waiter) = waiter {
            waiter.ready().await;
        }
        let ended = self.call(|t, g, out| (t.context_saved)(g, saving, out));
        Ok(ended.map(|out| out.into_text()))
    }

    fn subscribe(&mut self, kind: HandleKind, handle: u32) -> Result<Resource<DynPollable>> {
        let mut signal = std::ptr::null();
        self.must(|t, g, out| (t.handle_signal)(g, kind, handle, &mut signal, out))?;
        unsafe { crate::wasm::subscribe(&mut self.table, signal) }
    }
}
