//! "llama": SentencePiece's BPE, which has scores in place of a list of merges: of all neighbours that make a token, the
//! pair with the highest score is merged first. Spaces are written ▁, one is put in front of a text, and what no token
//! covers is written in bytes.
use super::bpe::{build, replace, CACHED_WORDS};
use super::limits;
use super::pieces::byte_of;
use super::vocabulary::{Checked, TokenType};
use std::collections::HashMap;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence;
use tokenizers::decoders::strip::Strip;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Sequence as Normalizers};
use tokenizers::Tokenizer;

pub fn convert(vocabulary: &Checked) -> Result<Tokenizer, String> {
    if vocabulary.from.scores.is_empty() {
        return Err("it is a SentencePiece vocabulary without scores: it is damaged".into());
    }
    let mut model = BPE::builder()
        .vocab_and_merges(vocabulary.ids::<Vocab>(), merges(vocabulary)?)
        .byte_fallback(true)
        .fuse_unk(true)
        .cache_capacity(CACHED_WORDS);
    if let Some(unknown) = unknown(vocabulary) {
        model = model.unk_token(unknown.to_string());
    }
    let mut parts = Tokenizer::new(build(model)?);

    let spaced = vocabulary.from.add_space_prefix.unwrap_or(true);
    let mut normalizers = vec![];
    let mut decoders = vec![
        DecoderWrapper::Replace(replace("▁", " ")?),
        DecoderWrapper::ByteFallback(ByteFallback::default()),
        DecoderWrapper::Fuse(Fuse::default()),
    ];
    if spaced {
        normalizers.push(NormalizerWrapper::Prepend(Prepend::new("▁".into())));
        decoders.push(DecoderWrapper::Strip(Strip::new(' ', 1, 0)));
    }
    normalizers.push(NormalizerWrapper::Replace(replace(" ", "▁")?));
    parts.with_normalizer(Some(Normalizers::new(normalizers)));
    parts.with_decoder(Some(Sequence::new(decoders)));
    Ok(parts)
}

fn unknown<'a>(vocabulary: &Checked<'a>) -> Option<&'a str> {
    let by_type = || {
        vocabulary
            .types
            .iter()
            .position(|&t| t == TokenType::Unknown)
    };
    let id = vocabulary
        .from
        .unknown
        .map(|id| id as usize)
        .or_else(by_type)?;
    Some(vocabulary.tokens[id])
}

/// Every way in which a token can be made of two others, the highest score first.
fn merges(vocabulary: &Checked) -> Result<Vec<(String, String)>, String> {
    let tokens = &vocabulary.tokens;
    let mergeable = |id: usize| vocabulary.is_text(id) && byte_of(tokens[id]).is_none();
    let known: HashMap<&str, ()> = (0..tokens.len())
        .filter(|&id| mergeable(id))
        .map(|id| (tokens[id], ()))
        .collect();
    let mut found: Vec<(f32, usize, u32)> = vec![]; // score, token, length of the left part
    for id in (0..tokens.len()).filter(|&id| mergeable(id)) {
        let token = tokens[id];
        if token.len() > limits::SPM_TOKEN_BYTES {
            let may = limits::SPM_TOKEN_BYTES;
            return Err(format!(
                "token {id} has {} bytes, more than {may}: it is damaged",
                token.len()
            ));
        }
        let score = vocabulary.from.scores[id];
        if score.is_nan() {
            return Err(format!(
                "the score of token {id} is no number: it is damaged"
            ));
        }
        for (at, _) in token.char_indices().skip(1) {
            if known.contains_key(&token[..at]) && known.contains_key(&token[at..]) {
                found.push((score, id, at as u32));
            }
        }
    }
    if found.len() > limits::MERGES {
        return Err("its tokens can be merged in too many ways: it is damaged".into());
    }
    // Of equal scores, the longer left part first: that is how Hugging Face orders them.
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.2.cmp(&a.2)));
    let pair = |&(_, id, at): &(f32, usize, u32)| {
        let (left, right) = tokens[id].split_at(at as usize);
        (left.to_string(), right.to_string())
    };
    Ok(found.iter().map(pair).collect())
}
