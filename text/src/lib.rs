//! Text to tokens and back: tokenizers, the models' own chat templates, and grammars that hold a text to a form. Plain
//! Rust; the flat ABI is the bridge's.
#![warn(clippy::all)]

pub mod grammar;
mod memory;
mod own_stack;
pub mod template;
pub mod tokenizer;
