//! "bert": WordPiece: the longest token first, word by word. A GGUF marks where a word begins (▁), the crate where one
//! goes on (##).
use super::vocabulary::{Checked, TokenType};
use super::Converted;
use crate::tokenizer::model::Model;
use tokenizers::decoders::wordpiece::WordPiece as Words;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::Tokenizer;

pub fn convert(vocabulary: &Checked) -> Result<Converted, String> {
    let spelled = (0..vocabulary.tokens.len()).map(|id| {
        let token = vocabulary.tokens[id];
        match (vocabulary.types[id], token.strip_prefix('▁')) {
            (TokenType::Normal | TokenType::Undefined, Some(word)) => word.to_string(),
            (TokenType::Normal | TokenType::Undefined, None) => format!("##{token}"),
            _ => token.to_string(),
        }
    });
    let unknown = vocabulary
        .from
        .unknown
        .map(|id| vocabulary.tokens[id as usize]);
    let unknown = unknown.unwrap_or("[UNK]").to_string();
    if !vocabulary.tokens.contains(&unknown.as_str()) {
        return Err("it is a WordPiece vocabulary without an unknown token: it is damaged".into());
    }
    let ids: Vec<(String, u32)> = spelled.zip(0..).collect();
    let model = WordPiece::builder()
        .vocab(
            ids.into_iter()
                .rev()
                .collect::<tokenizers::models::bpe::Vocab>(),
        )
        .unk_token(unknown)
        .build()
        .map_err(|e| format!("it is not a WordPiece vocabulary: {e}"))?;
    let lowercase = vocabulary.from.lowercase.unwrap_or(true);
    let strip_accents = vocabulary.from.strip_accents.unwrap_or(lowercase);
    let normalizer = BertNormalizer::new(true, true, Some(strip_accents), lowercase);
    Ok(Converted {
        normalizer: Some(NormalizerWrapper::BertNormalizer(normalizer)),
        pre_tokenizer: Some(PreTokenizerWrapper::BertPreTokenizer(BertPreTokenizer)),
        model: Model::Other(Box::new(Tokenizer::new(model))),
        decoder: DecoderWrapper::WordPiece(Words::default()),
    })
}
