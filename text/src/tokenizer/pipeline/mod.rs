//! Cuts a text into the pieces that a model encodes: added tokens are found, and the text between them is normalised and
//! cut.
//!
//! The steps that nearly every language model uses are done here on borrowed text. The `tokenizers` crate records the
//! origin of every byte, which takes hundreds of bytes for each. It runs the rare steps ([`by_crate`]), on shorter texts.
mod added;
mod by_crate;
mod cut;
mod direct;
mod normal;

pub use added::AddedTokens;

use super::limits;
use super::model::Model;
use by_crate::ByCrate;
use direct::Direct;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

pub enum Pipeline {
    Direct(Direct),
    ByCrate(Box<ByCrate>),
}

/// A part of a text.
pub enum Part<'a> {
    /// An added token.
    Token(u32),
    Text(&'a str),
}

impl Pipeline {
    pub fn new(
        added: &AddedTokens,
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<PreTokenizerWrapper>,
    ) -> Result<Pipeline, String> {
        let direct = Direct::new(added, normalizer.as_ref(), pre_tokenizer.as_ref())?;
        Ok(match direct {
            Some(direct) => Pipeline::Direct(direct),
            None => Pipeline::ByCrate(Box::new(ByCrate::new(added, normalizer, pre_tokenizer))),
        })
    }

    /// Always uses the crate.
    #[cfg(test)]
    pub fn new_by_crate(
        added: &AddedTokens,
        normalizer: Option<NormalizerWrapper>,
        pre_tokenizer: Option<PreTokenizerWrapper>,
    ) -> Pipeline {
        Pipeline::ByCrate(Box::new(ByCrate::new(added, normalizer, pre_tokenizer)))
    }

    fn run(
        &self,
        text: &str,
        plain: bool,
        take: &mut impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        match self {
            Pipeline::Direct(direct) => {
                limits::check_text(text, limits::TEXT_BYTES)?;
                direct.run(text, plain, take)
            }
            Pipeline::ByCrate(by_crate) => {
                limits::check_text(text, limits::TEXT_BYTES_BY_CRATE)?;
                by_crate.run(text, plain, take)
            }
        }
    }

    /// The pieces that the model is given, with `<id>` for added tokens.
    #[cfg(test)]
    pub fn parts(&self, text: &str, plain: bool) -> Vec<String> {
        let mut parts = vec![];
        let mut take = |part: Part| {
            parts.push(match part {
                Part::Token(id) => format!("<{id}>"),
                Part::Text(piece) => piece.to_string(),
            });
            Ok(())
        };
        self.run(text, plain, &mut take).unwrap();
        parts
    }

    /// `plain`: special tokens written in the text are text.
    pub fn encode(&self, model: &Model, text: &str, plain: bool) -> Result<Vec<u32>, String> {
        let mut ids = vec![];
        let mut encoder = model.encoder();
        let mut take = |part: Part| match part {
            Part::Token(id) => {
                ids.push(id);
                Ok(())
            }
            Part::Text(piece) => encoder.encode(piece, &mut ids),
        };
        self.run(text, plain, &mut take)?;
        Ok(ids)
    }
}
