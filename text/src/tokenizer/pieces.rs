//! The bytes that every token stands for, in one flat table. The byte-level alphabet and SentencePiece's `▁` and `<0xNN>`
//! are undone.
use tokenizers::decoders::DecoderWrapper;
use tokenizers::normalizers::replace::Replace;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::Decoder;

#[derive(Default)]
pub struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    drops_leading_space: bool,
}

impl Pieces {
    pub fn new(rule: &Rule) -> Self {
        Pieces {
            drops_leading_space: rule.drops_leading_space(),
            ..Pieces::default()
        }
    }

    /// The bytes of the next id.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        self.bytes.extend_from_slice(piece);
        let end = u32::try_from(self.bytes.len())
            .map_err(|_| "the vocabulary's tokens are longer than 4 GiB together: it is damaged")?;
        self.ends.push(end);
        Ok(())
    }

    /// Ids without text, up to `size` of them all.
    pub fn pad(&mut self, size: u32) {
        let end = self.bytes.len() as u32;
        if size > self.len() {
            self.ends.resize(size as usize, end);
        }
    }

    /// Frees unused capacity.
    pub fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    pub fn get(&self, id: u32) -> &[u8] {
        let Some(&end) = self.ends.get(id as usize) else {
            return &[];
        };
        let start = if id == 0 {
            0
        } else {
            self.ends[id as usize - 1]
        };
        &self.bytes[start as usize..end as usize]
    }

    pub fn flat(&self) -> (&[u8], &[u32]) {
        (&self.bytes, &self.ends)
    }

    pub fn drops_leading_space(&self) -> bool {
        self.drops_leading_space
    }
}

/// How a vocabulary's spelling of a token becomes bytes: the steps of a decoder that look at one token alone, and
/// whether the whole text loses its first space.
pub struct Rule {
    steps: Vec<Step>,
    drops_leading_space: bool,
}

enum Step {
    /// Undo the byte-level alphabet.
    ByteLevel,
    /// `<0xNN>` is that byte.
    ByteFallback,
    /// A token that begins a word has a space in front. `prefix` marks the tokens that do not begin one.
    Words { prefix: String },
    /// Every `from` becomes `to`.
    Replace { from: String, to: String },
    /// Any other decoder of the crate that treats tokens one by one.
    EachToken(DecoderWrapper),
}

impl Rule {
    /// The rule of a decoder of the crate. Without a decoder, the crate puts a space between any two tokens.
    pub fn of(decoder: Option<&DecoderWrapper>) -> Result<Rule, String> {
        let mut rule = Rule {
            steps: vec![],
            drops_leading_space: false,
        };
        match decoder {
            Some(DecoderWrapper::Sequence(all)) => {
                let mut fused = false;
                for one in all.get_decoders() {
                    fused |= matches!(one, DecoderWrapper::Fuse(_));
                    rule.add(one, fused)?;
                }
            }
            Some(one) => rule.add(one, false)?,
            None => {
                rule.words("");
            }
        }
        Ok(rule)
    }

    fn add(&mut self, decoder: &DecoderWrapper, fused: bool) -> Result<(), String> {
        match decoder {
            DecoderWrapper::ByteLevel(_) => self.steps.push(Step::ByteLevel),
            DecoderWrapper::ByteFallback(_) => self.steps.push(Step::ByteFallback),
            DecoderWrapper::Fuse(_) => {}
            DecoderWrapper::Strip(strip) if fused => {
                self.drops_leading_space |= strip.content == ' ' && strip.start > 0;
            }
            DecoderWrapper::WordPiece(words) => {
                self.words(&words.prefix);
                if words.cleanup {
                    // Without its prefix, the decoder only tidies up spaces.
                    let mut tidy = words.clone();
                    tidy.prefix.clear();
                    self.steps
                        .push(Step::EachToken(DecoderWrapper::WordPiece(tidy)));
                }
            }
            DecoderWrapper::Metaspace(meta) => {
                self.drops_leading_space |= meta.get_prepend_scheme() != PrependScheme::Never;
                let mut meta = meta.clone();
                meta.set_prepend_scheme(PrependScheme::Never);
                self.steps
                    .push(Step::EachToken(DecoderWrapper::Metaspace(meta)));
            }
            DecoderWrapper::Replace(replace) if plain_pattern(replace).is_some() => {
                self.steps.push(Step::Replace {
                    from: plain_pattern(replace).unwrap_or_default(),
                    to: replace.content.clone(),
                });
            }
            DecoderWrapper::BPE(_) | DecoderWrapper::Replace(_) | DecoderWrapper::Strip(_) => {
                self.steps.push(Step::EachToken(decoder.clone()));
            }
            DecoderWrapper::CTC(_) => {
                return Err(
                    "the tokenizer's decoder is CTC, which is for speech, not for text".into(),
                )
            }
            DecoderWrapper::Sequence(_) => {
                return Err("the tokenizer's decoder is a sequence within a sequence".into())
            }
        }
        Ok(())
    }

    fn words(&mut self, prefix: &str) {
        self.drops_leading_space = true;
        self.steps.push(Step::Words {
            prefix: prefix.into(),
        });
    }

    pub fn drops_leading_space(&self) -> bool {
        self.drops_leading_space
    }

    /// The bytes of a token of the model's own vocabulary.
    pub fn bytes(&self, token: &str) -> Result<Vec<u8>, String> {
        self.apply(token, false)
    }

    /// The bytes of an added token, whose name is plain text.
    pub fn added_bytes(&self, token: &str) -> Result<Vec<u8>, String> {
        self.apply(token, true)
    }

    fn apply(&self, token: &str, added: bool) -> Result<Vec<u8>, String> {
        let mut token = token.to_string();
        for step in &self.steps {
            match step {
                Step::ByteLevel | Step::ByteFallback if added => {}
                Step::ByteLevel => return Ok(undo_byte_level(&token).unwrap_or(token.into_bytes())),
                Step::ByteFallback => {
                    if let Some(byte) = byte_of(&token) {
                        return Ok(vec![byte]);
                    }
                }
                Step::Words { prefix } => {
                    token = match token.strip_prefix(prefix.as_str()) {
                        Some(rest) if !prefix.is_empty() => rest.to_string(),
                        _ => format!(" {token}"),
                    }
                }
                Step::Replace { from, to } => {
                    if token.contains(from) {
                        token = token.replace(from, to);
                    }
                }
                Step::EachToken(decoder) => {
                    let suffixed = matches!(decoder, DecoderWrapper::BPE(_));
                    let mut chain = vec![token];
                    if suffixed {
                        chain.push(String::new()); // the decoder treats the last token differently
                    }
                    token = decoder
                        .decode_chain(chain)
                        .map_err(|e| format!("the tokenizer's decoder failed: {e}"))?
                        .concat();
                }
            }
        }
        Ok(token.into_bytes())
    }
}

/// The text that the normalizer replaces, unless it is a regular expression.
pub fn plain_pattern(replace: &Replace) -> Option<String> {
    let value = serde_json::to_value(replace).ok()?;
    Some(value.pointer("/pattern/String")?.as_str()?.to_string())
}

/// The byte that a token of SentencePiece's byte fallback (`<0xNN>`) stands for.
pub fn byte_of(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// None when the token has a character that is not of the byte-level alphabet.
fn undo_byte_level(token: &str) -> Option<Vec<u8>> {
    token.chars().map(byte_level_byte).collect()
}

/// GPT-2's alphabet: printable bytes stand for themselves, the 68 others for U+0100 and on, in order.
fn byte_level_byte(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8), // 00 to 20
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8), // 7f to a0
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The inverse of `byte_level_byte`.
pub fn byte_level_char(byte: u8) -> char {
    let code = match u32::from(byte) {
        low @ 0..=0x20 => low + 0x100,
        middle @ 0x7f..=0xa0 => middle - 0x7f + 0x121,
        0xad => 0x143,
        itself => itself,
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER) // all are characters
}
