//! The ABI of `pie-text`: what turns text into tokens and back. It knows no guests and no runtime.
pub mod template;
pub mod tokenizer;
