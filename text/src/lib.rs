//! Text to tokens and back: the field's tokenizers, and the models' own chat templates. Plain Rust; the flat ABI is the
//! bridge's.
#![warn(clippy::all)]

pub mod template;
pub mod tokenizer;
