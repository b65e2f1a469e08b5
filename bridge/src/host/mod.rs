//! The host functions: what a guest imports, forwarded to C++ (`src/host`).
//!
//! `bridge/hostgen` generates the forwarding from `wit/`: `table` is the table of C++ function pointers, `calls` implements
//! wasmtime's traits with it. This folder holds the code that the generated code calls.
mod by_hand;
mod call;
mod keep;
mod reply;

/// The table of C++ functions, generated.
pub mod table {
    include!(concat!(env!("OUT_DIR"), "/host_table.rs"));
}

/// The traits of the interfaces, generated.
#[allow(clippy::all)] // generated code need not have the shortest form
mod calls {
    include!(concat!(env!("OUT_DIR"), "/host_calls.rs"));
}

pub use by_hand::Sampler;
pub use call::{Host, Wait};
pub use calls::add_to_linker;
pub use reply::Reply;
pub use table::HostTable;
