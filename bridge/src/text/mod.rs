//! The ABI of `pie-text`, which turns text into tokens and back. It knows no guests and no runtime; of the contract it
//! knows the turns.
pub mod grammar;
pub mod template;
pub mod tokenizer;
