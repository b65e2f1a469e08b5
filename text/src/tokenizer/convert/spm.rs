//! "llama": SentencePiece's BPE. Spaces are written ▁, one ▁ is put in front of a text, and characters without a token
//! are written as bytes.
use super::vocabulary::Checked;
use super::{replace, text_decoder, Converted};
use crate::tokenizer::model::{Model, Names, Spm};
use crate::tokenizer::pieces::byte_of;
use tokenizers::normalizers::{NormalizerWrapper, Prepend, Sequence};

pub fn convert(vocabulary: &Checked) -> Result<Converted, String> {
    let scores = &vocabulary.from.scores;
    if scores.is_empty() {
        return Err("it is a SentencePiece vocabulary without scores: it is damaged".into());
    }
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(format!(
            "the score of token {id} is not a number: it is damaged"
        ));
    }
    let is_text = |id: usize| vocabulary.is_text(id) && byte_of(vocabulary.tokens[id]).is_none();
    let scores: Vec<Option<f32>> = scores
        .iter()
        .enumerate()
        .map(|(id, &score)| is_text(id).then_some(score))
        .collect();
    let names = Names::new(vocabulary.tokens.iter().copied())?;

    let spaced = vocabulary.from.add_space_prefix.unwrap_or(true);
    let mut normalizers = vec![];
    if spaced {
        normalizers.push(NormalizerWrapper::Prepend(Prepend::new("▁".into())));
    }
    normalizers.push(NormalizerWrapper::Replace(replace(" ", "▁")?));
    Ok(Converted {
        normalizer: Some(NormalizerWrapper::Sequence(Sequence::new(normalizers))),
        pre_tokenizer: None,
        model: Model::Spm(Spm::new(names, &scores, vocabulary.unknown())),
        decoder: text_decoder(spaced)?,
    })
}
