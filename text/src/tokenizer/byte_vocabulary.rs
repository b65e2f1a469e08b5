//! A vocabulary in which every byte is a token: id 0 to 255, then the special tokens. The dummy model uses it.
use super::model::Model;
use super::pieces::Pieces;
use super::pipeline::AddedTokens;
use super::{limits, Tokenizer};
use tokenizers::AddedToken;

const BYTES: u32 = 256;

/// `specials` are the names of the special tokens, which have the ids from 256 on.
pub fn load(specials: &[&str]) -> Result<Tokenizer, String> {
    limits::check_size("the vocabulary", BYTES as usize + specials.len())?;
    let mut pieces = Pieces::default();
    for byte in 0..=u8::MAX {
        pieces.push(&[byte])?;
    }
    for _ in specials {
        pieces.push(b"")?;
    }
    let named: Vec<(u32, String)> = (BYTES..)
        .zip(specials)
        .map(|(id, name)| (id, name.to_string()))
        .collect();
    let added = named
        .iter()
        .map(|(id, name)| (*id, AddedToken::from(name.clone(), true)))
        .collect();
    let mut tokenizer = Tokenizer::assemble(
        AddedTokens::new(added)?,
        None,
        None,
        Model::Bytes,
        pieces,
        named,
    )?;
    tokenizer.split_regex = r"[\s\S]".into();
    tokenizer.text_stays_text = true;
    Ok(tokenizer)
}
