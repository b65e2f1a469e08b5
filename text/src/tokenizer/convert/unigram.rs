//! "t5": SentencePiece's Unigram: of all ways to write a text in tokens, the one with the highest sum of scores.
use super::vocabulary::{Checked, TokenType};
use super::{replace, Converted};
use crate::tokenizer::limits;
use crate::tokenizer::model::Model;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{NormalizerWrapper, Precompiled, Sequence, Strip};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::Tokenizer;

pub fn convert(vocabulary: &Checked) -> Result<Converted, String> {
    let from = vocabulary.from;
    if from.scores.is_empty() {
        return Err("it is a Unigram vocabulary without scores: it is damaged".into());
    }
    if let Some(id) = from.scores.iter().position(|score| !score.is_finite()) {
        return Err(format!(
            "the score of token {id} is not a number: it is damaged"
        ));
    }
    let unknown = vocabulary.unknown().map(|id| id as usize);
    let scored = vocabulary.tokens.iter().zip(&from.scores);
    let scored = scored
        .map(|(token, &score)| (token.to_string(), score as f64))
        .collect();
    let bytes = vocabulary.types.contains(&TokenType::Byte);
    let model = Unigram::from(scored, unknown, bytes)
        .map_err(|e| format!("it is not a Unigram vocabulary: {e}"))?;

    let mut normalizers = vec![];
    if !from.precompiled_charsmap.is_empty() {
        let first = from
            .precompiled_charsmap
            .first_chunk()
            .copied()
            .unwrap_or_default();
        limits::check_charsmap(first, from.precompiled_charsmap.len())?;
        let map = Precompiled::from(from.precompiled_charsmap)
            .map_err(|e| format!("its map of characters is damaged: {e:?}"))?;
        normalizers.push(NormalizerWrapper::Precompiled(map));
    }
    if from.remove_extra_whitespaces.unwrap_or(false) {
        normalizers.push(NormalizerWrapper::StripNormalizer(Strip::new(true, true)));
        let runs = tokenizers::normalizers::replace::ReplacePattern::Regex(" {2,}".into());
        let one = tokenizers::normalizers::Replace::new(runs, " ").map_err(|e| e.to_string())?;
        normalizers.push(NormalizerWrapper::Replace(one));
    }
    normalizers.push(NormalizerWrapper::Replace(replace(" ", "▁")?));
    let scheme = match from.add_space_prefix.unwrap_or(true) {
        true => PrependScheme::Always,
        false => PrependScheme::Never,
    };
    let words = Metaspace::new('▁', scheme, true);
    Ok(Converted {
        normalizer: Some(NormalizerWrapper::Sequence(Sequence::new(normalizers))),
        pre_tokenizer: Some(PreTokenizerWrapper::Metaspace(words.clone())),
        model: Model::Other(Box::new(Tokenizer::new(model))),
        decoder: DecoderWrapper::Metaspace(words),
    })
}
