//! Write programs that run inside Pie, next to the model.
//!
//! ```ignore
//! use inferlet::prelude::*;
//!
//! #[inferlet::main]
//! async fn main(prompt: String) -> Result<String> {
//!     let model = Model::load(&runtime::models()[0])?;
//!     let mut ctx = Context::new(&model)?;
//!     ctx.user(&prompt).cue();
//!     ctx.generate(Sampler::top_p(0.6, 0.95)).max_tokens(256).collect_text().await
//! }
//! ```
//!
//! Where to look: [`Context`] holds a token sequence, [`Generator`] extends it, [`Forward`] runs one pass that you
//! compose, and [`Output`] is the result of a pass. [`executor`] waits. Everything else is the engine's API in Rust's
//! style. The raw bindings are under [`pie`] and [`wasi`].

#![warn(missing_docs)]

mod bindings {
    #![allow(clippy::all, missing_docs)]
    wit_bindgen::generate!({ path: "wit", world: "imports", generate_all });
}

pub mod adapter;
mod args;
mod brle;
pub mod chat;
mod constrain;
pub mod context;
#[doc(hidden)]
pub mod entry;
pub mod executor;
pub mod forward;
mod generator;
pub mod http;
pub mod inference;
pub mod mcp;
pub mod messaging;
pub mod model;
mod output;
mod pass;
pub mod prelude;
pub mod reasoning;
pub mod sample;
pub mod scheduling;
pub mod session;
pub mod spec;
pub mod time;
pub mod tools;
mod turns;
mod wait;
pub mod zo;

/// Generators and their steps.
pub mod generation {
    pub use crate::generator::{Count, GenStep, Generator};
}

/// Types that several parts of the engine's contract share.
pub mod types {
    pub use crate::pie::core::types::*;
}

pub use bindings::pie::core::runtime;
pub use bindings::{pie, wasi};

pub use adapter::Adapter;
pub use args::{parse_args, Arguments};
pub use constrain::{AnyJson, Constrain, Ebnf, GrammarConstraint, JsonSchema, Regex, Schema};
pub use context::{Context, Idle};
pub use executor::{block_on, yield_now};
pub use forward::Forward;
pub use generator::{GenStep, Generator};
pub use inference::{Grammar, Matcher};
pub use inferlet_macros::{http as http_handler, main, tool};
pub use mcp::McpError;
pub use model::{Model, Tokenizer};
pub use output::{Output, ProbeHandle, SampleHandle};
pub use sample::{Probe, Sampler};
pub use spec::Speculator;
pub use tools::Tool;
pub use wait::{
    ChildExt, ForwardPassExt, FutureBlobExt, FutureOutputExt, FutureStringExt, SubscriptionExt,
};

pub use pie::core::context::Context as RawContext;
pub use pie::core::inference::Output as RawOutput;

// Crates that inferlets commonly need, in the versions that the SDK was built with.
pub use {futures, serde, serde_json};

#[cfg(not(feature = "schemars-1"))]
pub use ::schemars;
#[cfg(feature = "schemars-1")]
pub use ::schemars_1 as schemars;

#[cfg(not(feature = "wstd-0-6"))]
pub use ::wstd;
#[cfg(feature = "wstd-0-6")]
pub use ::wstd_0_6 as wstd;

#[doc(hidden)]
pub use wit_bindgen;

/// The result of calls that can fail. An error is a text for the person who reads it.
pub type Result<T, E = String> = std::result::Result<T, E>;
