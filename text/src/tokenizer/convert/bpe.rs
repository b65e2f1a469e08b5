//! "gpt2": byte pairs merged in the order of a list, on bytes written in GPT-2's alphabet.
use super::splits::{self, Alphabet};
use super::vocabulary::Checked;
use super::{replace, text_decoder, Converted};
use crate::tokenizer::model::{Bpe, BpeOptions, Model, Names};
use tokenizers::decoders::DecoderWrapper;
use tokenizers::normalizers::{unicode::NFC, NormalizerWrapper};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

pub fn convert(vocabulary: &Checked) -> Result<Converted, String> {
    let split = splits::find(match vocabulary.from.model {
        "gpt2" => vocabulary.from.pre,
        whole => whole, // a kind of its own, which cuts in its own way
    })?;
    if vocabulary.from.merges.is_empty() {
        return Err("it is a BPE vocabulary without merges: it is damaged".into());
    }
    let in_bytes = split.alphabet == Alphabet::Bytes;
    let names = Names::new(vocabulary.tokens.iter().copied())?;
    let merges = vocabulary.from.merges.iter().enumerate();
    let merges = merges.map(|(n, merge)| {
        pair(merge).ok_or_else(|| format!("merge {n} is not a pair of tokens: it is damaged"))
    });
    let options = BpeOptions {
        byte_fallback: !in_bytes,
        whole_first: split.whole_words_first,
        ..BpeOptions::default()
    };
    let spaces = || replace(" ", "▁").map(NormalizerWrapper::Replace);
    let composed = || split.nfc.then_some(NormalizerWrapper::NFC(NFC));
    Ok(Converted {
        normalizer: match in_bytes {
            true => composed(),
            false => Some(spaces()?),
        },
        pre_tokenizer: split.pre_tokenizer()?,
        model: Model::Bpe(Bpe::new(names, merges, options)?),
        decoder: match in_bytes {
            true => DecoderWrapper::ByteLevel(ByteLevel::default()),
            false => text_decoder(false)?,
        },
    })
}

/// "a b": the tokens a and b become one. The first character may itself be a space.
fn pair(merge: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(merge).ok()?;
    let first = text.chars().next()?.len_utf8();
    let space = first + text[first..].find(' ')?;
    Some((&text[..space], &text[space + 1..]))
}
