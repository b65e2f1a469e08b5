//! "t5": SentencePiece's Unigram: of all ways to write a text in tokens, the one with the highest sum of scores.
use super::bpe::replace;
use super::vocabulary::{Checked, TokenType};
use tokenizers::models::unigram::Unigram;
use tokenizers::normalizers::{NormalizerWrapper, Precompiled, Sequence, Strip};
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::Tokenizer;

pub fn convert(vocabulary: &Checked) -> Result<Tokenizer, String> {
    let from = vocabulary.from;
    if from.scores.is_empty() {
        return Err("it is a Unigram vocabulary without scores: it is damaged".into());
    }
    if let Some(id) = from.scores.iter().position(|score| !score.is_finite()) {
        return Err(format!(
            "the score of token {id} is no number: it is damaged"
        ));
    }
    let by_type = || {
        vocabulary
            .types
            .iter()
            .position(|&t| t == TokenType::Unknown)
    };
    let unknown = from.unknown.map(|id| id as usize).or_else(by_type);
    let scored = vocabulary.tokens.iter().zip(&from.scores);
    let scored = scored
        .map(|(token, &score)| (token.to_string(), score as f64))
        .collect();
    let bytes = vocabulary.types.contains(&TokenType::Byte);
    let model = Unigram::from(scored, unknown, bytes)
        .map_err(|e| format!("it is no Unigram vocabulary: {e}"))?;
    let mut parts = Tokenizer::new(model);

    let mut normalizers = vec![];
    if !from.precompiled_charsmap.is_empty() {
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
    parts.with_normalizer(Some(Sequence::new(normalizers)));
    let scheme = match from.add_space_prefix.unwrap_or(true) {
        true => PrependScheme::Always,
        false => PrependScheme::Never,
    };
    let words = Metaspace::new('▁', scheme, true);
    parts.with_pre_tokenizer(Some(words.clone()));
    parts.with_decoder(Some(words));
    Ok(parts)
}
