//! The normalizers of language models: composing characters (NFC), and SentencePiece's ▁ for spaces.
use std::borrow::Cow;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::NormalizedString;

#[derive(Default)]
pub struct Normals(Vec<Normal>);

enum Normal {
    Nfc,
    Replace { from: String, to: String },
    Prepend(String),
}

impl Normals {
    /// None if there is a normalizer that only the crate can run.
    pub fn of(normalizer: Option<&NormalizerWrapper>) -> Option<Normals> {
        let mut normals = Normals::default();
        if let Some(normalizer) = normalizer {
            normals.add(normalizer)?;
        }
        Some(normals)
    }

    fn add(&mut self, normalizer: &NormalizerWrapper) -> Option<()> {
        self.0.push(match normalizer {
            NormalizerWrapper::Sequence(all) => {
                return all.as_ref().iter().try_for_each(|one| self.add(one))
            }
            NormalizerWrapper::NFC(_) => Normal::Nfc,
            NormalizerWrapper::Prepend(prepend) => Normal::Prepend(prepend.prepend.clone()),
            NormalizerWrapper::Replace(replace) => Normal::Replace {
                from: crate::tokenizer::pieces::plain_pattern(replace).filter(|p| !p.is_empty())?,
                to: replace.content.clone(),
            },
            _ => return None,
        });
        Some(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for normal in &self.0 {
            match normal {
                Normal::Nfc if text.is_ascii() => {}
                Normal::Nfc => text = Cow::Owned(composed(&text)),
                Normal::Replace { from, to } if text.contains(from) => {
                    text = Cow::Owned(text.replace(from, to));
                }
                Normal::Replace { .. } => {}
                Normal::Prepend(front) if !text.is_empty() => {
                    text = Cow::Owned(format!("{front}{text}"));
                }
                Normal::Prepend(_) => {}
            }
        }
        text
    }
}

/// Normalises by the crate, part by part, because the crate needs much memory for each byte.
fn composed(text: &str) -> String {
    const PART: usize = 1 << 14;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let cut = rest
            .char_indices()
            .find(|&(at, c)| at >= PART && begins_anew(c))
            .map_or(rest.len(), |(at, _)| at);
        let (part, behind) = rest.split_at(cut);
        let mut normalized = NormalizedString::from(part);
        normalized.nfc();
        out.push_str(normalized.get());
        rest = behind;
    }
    out
}

/// Whether the character is never composed with the one before it. It is true for most such characters, not for all.
fn begins_anew(c: char) -> bool {
    matches!(c as u32, 0..=0x2ff | 0x400..=0x482 | 0x3041..=0x3096 | 0x30a1..=0x30fa | 0x3400..=0x9fff | 0xac00..=0xd7a3)
}
