//! Generates the code between the contract (`wit/`) and the C++ functions that implement it (`src/host/api_*.cc`).
//!
//! A host function is written down in the contract and once in C++. This crate generates from the contract: a table of
//! function pointers, which both languages see; the Rust traits of wasmtime's bindgen, implemented by calls through
//! that table; the declarations of the C++ functions; and the C++ table that calls them. `deviations.rs` lists the
//! exceptions.
//!
//! `bridge/build.rs` runs this crate. Nothing that it makes is kept in the repository.
mod contract;
mod cpp;
mod deviations;
mod read;
mod rust;
mod table;

use std::path::Path;

/// The generated files, by their reader.
pub struct Generated {
    /// Rust: `HostTable` and its types. Also the input of cbindgen.
    pub table_rs: String,
    /// Rust: bindgen's traits, implemented.
    pub calls_rs: String,
    /// C++: declarations of the host functions.
    pub api_h: String,
    /// C++: the table.
    pub table_h: String,
}

/// Reads the contract in the folder `wit`. An error says which function or type cannot be translated, and why.
pub fn generate(wit: &Path) -> Result<Generated, String> {
    let contract = read::read(wit)?;
    Ok(Generated {
        table_rs: table::table(&contract)?,
        calls_rs: rust::calls(&contract)?,
        api_h: cpp::api(&contract),
        table_h: cpp::table(&contract),
    })
}

#[cfg(test)]
mod tests;
