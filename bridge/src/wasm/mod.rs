//! wasmtime: compiles and caches programs, runs instances, and enforces their limits. This folder knows nothing of language
//! models; `crate::host` links the interfaces that a guest imports.
mod accounts;
mod cache;
mod compiler;
mod cpu;
mod http_allow;
mod http_errors;
mod http_in;
pub mod http_out;
mod instance;
mod lines;
mod polling;
mod program;
mod quota;
mod random;
mod removal;
mod runtime;
mod signal;
mod stdio;
mod store;
mod ticker;
mod trap;
mod turns;
mod weight;

pub use signal::{subscribe, waiter, Signal, SignalPollable};
pub use store::Guest;
pub use turns::{go_apart, leave_lent_thread};
