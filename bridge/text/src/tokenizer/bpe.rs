//! "gpt2": byte pairs merged in the order of a list, on bytes written in GPT-2's alphabet.
use super::splits::{self, Alphabet};
use super::vocabulary::Checked;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::bpe::{BpeBuilder, Vocab, BPE};
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::Tokenizer;

/// Words whose tokens are remembered.
pub const CACHED_WORDS: usize = 1_000;

pub fn convert(vocabulary: &Checked) -> Result<Tokenizer, String> {
    let split = splits::find(match vocabulary.from.model {
        "gpt2" => vocabulary.from.pre,
        whole => whole, // a kind of its own, which cuts in its own way
    })?;
    let merges = merges(vocabulary)?;
    let mut model = BPE::builder()
        .vocab_and_merges(vocabulary.ids::<Vocab>(), merges)
        .ignore_merges(split.whole_words_first)
        .cache_capacity(CACHED_WORDS);
    if split.alphabet == Alphabet::Text {
        model = model.byte_fallback(true);
    }
    let mut parts = Tokenizer::new(build(model)?);
    parts.with_pre_tokenizer(split.pre_tokenizer()?);
    match split.alphabet {
        Alphabet::Bytes => {
            parts.with_normalizer(split.nfc.then_some(NFC));
            parts.with_decoder(Some(ByteLevel::default()));
        }
        Alphabet::Text => {
            parts.with_normalizer(Some(replace(" ", "▁")?));
            parts.with_decoder(Some(Sequence::new(vec![
                DecoderWrapper::Replace(replace("▁", " ")?),
                DecoderWrapper::ByteFallback(ByteFallback::default()),
                DecoderWrapper::Fuse(Fuse::default()),
            ])));
        }
    }
    Ok(parts)
}

pub fn replace(from: &str, to: &str) -> Result<Replace, String> {
    Replace::new(from, to).map_err(|e| e.to_string())
}

pub fn build(model: BpeBuilder) -> Result<BPE, String> {
    model
        .build()
        .map_err(|e| format!("its merges do not fit its tokens: {e}"))
}

/// "a b": the tokens a and b become one. The first character may itself be a space.
fn merges(vocabulary: &Checked) -> Result<Vec<(String, String)>, String> {
    if vocabulary.from.merges.is_empty() {
        return Err("it is a BPE vocabulary without merges: it is damaged".into());
    }
    let mut merges = Vec::with_capacity(vocabulary.from.merges.len());
    for (n, bytes) in vocabulary.from.merges.iter().enumerate() {
        let pair = std::str::from_utf8(bytes).ok().and_then(|text| {
            let first = text.chars().next()?.len_utf8();
            let space = first + text[first..].find(' ')?;
            Some((text[..space].to_string(), text[space + 1..].to_string()))
        });
        merges.push(
            pair.ok_or_else(|| {
                format!("merge {n} is no pair of tokens: the vocabulary is damaged")
            })?,
        );
    }
    Ok(merges)
}
