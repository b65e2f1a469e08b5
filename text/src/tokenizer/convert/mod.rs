//! From a GGUF's vocabulary to the parts of a tokenizer, with one file for each kind.
mod bpe;
pub mod splits;
mod spm;
mod unigram;
mod vocabulary;
mod wordpiece;

pub use splits::known as known_splits;
pub use vocabulary::{load, Vocabulary};

use super::model::Model;
use tokenizers::decoders::{sequence::Sequence, DecoderWrapper};
use tokenizers::normalizers::{replace::Replace, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

/// The result of converting a vocabulary.
struct Converted {
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    model: Model,
    decoder: DecoderWrapper,
}

fn replace(from: &str, to: &str) -> Result<Replace, String> {
    Replace::new(from, to).map_err(|e| e.to_string())
}

/// Spaces back from ▁, and bytes from `<0xNN>`.
fn text_decoder(drop_leading_space: bool) -> Result<DecoderWrapper, String> {
    use tokenizers::decoders::{byte_fallback::ByteFallback, fuse::Fuse, strip::Strip};
    let mut steps = vec![
        DecoderWrapper::Replace(replace("▁", " ")?),
        DecoderWrapper::ByteFallback(ByteFallback::default()),
        DecoderWrapper::Fuse(Fuse::default()),
    ];
    if drop_leading_space {
        steps.push(DecoderWrapper::Strip(Strip::new(' ', 1, 0)));
    }
    Ok(DecoderWrapper::Sequence(Sequence::new(steps)))
}
