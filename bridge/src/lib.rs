//! The door from Pie's C++ to the field's Rust libraries: one static library behind a flat C ABI.
//! Glue only. What a guest may do is decided in C++ (`src/host`); what runs it is decided here.
//!
//! Rules of the ABI: borrowed slices live for the call; what C++ gives back is written into an [`abi::Out`]; a panic
//! never crosses (it becomes an error); handles are freed exactly once by the side that was given them.
#![warn(clippy::all)]
#![allow(clippy::missing_safety_doc)] // the ABI's rules above hold for every function

pub mod abi;
pub mod hash;
pub mod host;
pub mod text;
pub mod wasm;
