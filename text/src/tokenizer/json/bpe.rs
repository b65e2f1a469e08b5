//! Reads a BPE file straight into the tables that are kept.
use super::flat::{Merges, Vocabulary};
use super::{unreadable, Parts};
use crate::tokenizer::limits;
use crate::tokenizer::model::{Bpe, BpeOptions, Model, Names};
use serde::Deserialize;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::AddedToken;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    decoder: Option<DecoderWrapper>,
    model: FileModel,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

/// The dropout is not read: it is for training.
#[derive(Deserialize)]
struct FileModel {
    unk_token: Option<String>,
    fuse_unk: Option<bool>,
    byte_fallback: Option<bool>,
    ignore_merges: Option<bool>,
    vocab: Vocabulary,
    merges: Merges,
}

pub fn read(json: &[u8]) -> Result<Parts, String> {
    let mut file: File = serde_json::from_slice(json).map_err(unreadable)?;
    let model = &mut file.model;
    model.vocab.sort();
    let size = model.vocab.size();
    limits::check_size("it", size as usize)?;
    limits::check_gaps(size as usize, json.len())?;
    let names = Names::new(model.vocab.names())?;
    model.vocab = Vocabulary::default();

    let unknown = match &model.unk_token {
        Some(name) => names.id(name), // a missing token is an error only where it is needed
        None => None,
    };
    let options = BpeOptions {
        byte_fallback: model.byte_fallback.unwrap_or(false),
        unknown,
        fuse_unknown: model.fuse_unk.unwrap_or(false),
        whole_first: model.ignore_merges.unwrap_or(false),
    };
    let merges = (0..model.merges.len()).map(|n| Ok(model.merges.get(n)));
    let bpe = Bpe::new(names, merges, options)?;
    let added = file.added_tokens.into_iter();
    Ok(Parts {
        added: added.map(|added| (added.id, added.token)).collect(),
        normalizer: file.normalizer,
        pre_tokenizer: file.pre_tokenizer,
        decoder: file.decoder,
        model: Model::Bpe(bpe),
        size,
    })
}
