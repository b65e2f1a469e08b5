//! wasmtime: programs compiled and cached, instances run, limited and swept. Knows nothing of language models: the
//! interfaces that a guest imports are linked in by `crate::host`.
mod cache;
mod cpu;
mod instance;
mod program;
mod quota;
mod runtime;
mod signal;
mod stdio;
mod store;
mod ticker;
mod turns;

pub use signal::{subscribe, waiter, Signal, SignalPollable};
pub use store::Guest;
