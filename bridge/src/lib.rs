//! The Rust libraries that Pie's C++ uses, behind a flat C ABI: one static library.
//!
//! This crate is glue. C++ (`src/host`) decides what a guest may do; this crate runs the guest.
//!
//! The ABI has four rules. A borrowed slice lives for the length of the call. A result is written into an object that the
//! reader owns ([`abi::Out`], [`host::Reply`]). A panic never crosses the ABI; it becomes an error. The side that gets a handle
//! frees it exactly once.
#![warn(clippy::all)]
#![allow(clippy::missing_safety_doc)] // every function relies on the rules above

pub mod abi;
pub mod hash;
pub mod host;
pub mod mcp;
pub mod text;
pub mod wasm;
