//! How a text is cut before BPE, by the names that GGUFs give to it (`tokenizer.ggml.pre`). The patterns are those of
//! the models' own `tokenizer.json`.
use crate::tokenizer::split_regex::GPT2;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split as Cut, SplitPattern};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::SplitDelimiterBehavior::{Contiguous, Isolated};

/// The alphabet of the tokens' spellings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// GPT-2's: one character per byte.
    Bytes,
    /// The text itself, with ▁ for a space.
    Text,
}

/// One step. Each step cuts the pieces that the step before it left.
enum Step {
    /// Every match is a piece, and so is what lies between.
    Matches(&'static str),
    /// Every digit is a piece.
    EachDigit,
    /// Runs of punctuation are pieces.
    Punctuation,
}
use Step::{EachDigit, Matches};

pub struct Split {
    names: &'static [&'static str],
    steps: &'static [Step],
    pub alphabet: Alphabet,
    /// The text is composed (NFC) first.
    pub nfc: bool,
    /// A piece that is a token stays whole, whatever the merges say.
    pub whole_words_first: bool,
}

const BASE: Split = Split {
    names: &[],
    steps: &[],
    alphabet: Alphabet::Bytes,
    nfc: false,
    whole_words_first: false,
};

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The step that follows those for digits and for Chinese and Japanese runs.
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const HAN_KANA: &str = r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+";
/// Letters of the scripts that have cases.
const CASED: &str = concat!(
    r"\s?[",
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}",
    r"\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}",
    r"\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}",
    r"\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}",
    r"\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}",
    r"\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}",
    r"\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}",
    r"\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}",
    r"\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}",
    r"\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}",
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}",
    r"\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}",
    r"\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}",
    r"\x{1E900}-\x{1E943}",
    r"]+",
);
const HAN_HANGUL: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";

static SPLITS: &[Split] = &[
    Split {
        names: &[
            "gpt-2",
            "gpt2",
            "mpt",
            "olmo",
            "phi-2",
            "jais",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
            "modern-bert",
            "mellum",
            "trillion",
            "granite-docling",
        ],
        steps: &[Matches(GPT2)],
        ..BASE
    },
    Split {
        names: &["default", ""],
        steps: &[
            Matches(r"[\p{P}$+<=>^~|]+"),
            Matches(GPT2),
            Matches(r"\p{N}+"),
            Matches("[0-9][0-9][0-9]"),
        ],
        ..BASE
    },
    Split {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        steps: &[EachDigit, Matches(GPT2)],
        ..BASE
    },
    Split {
        names: &["command-r"],
        steps: &[EachDigit, Matches(GPT2)],
        nfc: true,
        ..BASE
    },
    Split {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
            "glm4",
            "glm5",
        ],
        steps: &[Matches(LLAMA3)],
        whole_words_first: true,
        ..BASE
    },
    Split {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe", "gpt-4", "cl100k"],
        steps: &[Matches(LLAMA3)],
        ..BASE
    },
    Split {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "kormo", "f2llmv2"],
        steps: &[Matches(QWEN2)],
        nfc: true,
        ..BASE
    },
    Split {
        names: &["stablelm2", "hunyuan", "solar-open", "grok-2"],
        steps: &[Matches(QWEN2)],
        ..BASE
    },
    Split {
        names: &["qwen35"],
        steps: &[Matches(QWEN35)],
        ..BASE
    },
    Split {
        names: &["tekken"],
        steps: &[Matches(TEKKEN)],
        whole_words_first: true,
        ..BASE
    },
    Split {
        names: &["gpt-4o", "o200k", "llama4", "kanana2", "minimax-m2"],
        steps: &[Matches(O200K)],
        ..BASE
    },
    Split {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        steps: &[
            Matches(r"\p{N}{1,3}"),
            Matches(HAN_KANA),
            Matches(DEEPSEEK3),
        ],
        ..BASE
    },
    Split {
        names: &["deepseek-llm"],
        steps: &[
            Matches("[\r\n]"),
            Matches(CASED),
            Matches(
                r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
            ),
            Matches(r"\s+$"),
            Matches(HAN_HANGUL),
            Matches(r"\p{N}+"),
        ],
        ..BASE
    },
    Split {
        names: &["deepseek-coder"],
        steps: &[
            Matches("[\r\n]"),
            Matches(r"\s?\p{L}+"),
            Matches(r"\s?\p{P}+"),
            Matches(HAN_HANGUL),
            Matches(r"\p{N}"),
        ],
        ..BASE
    },
    Split {
        names: &["falcon"],
        steps: &[Step::Punctuation, Matches(GPT2), Matches("[0-9][0-9][0-9]")],
        ..BASE
    },
    Split {
        names: &["bloom", "poro-chat", "gpt3-finnish"],
        steps: &[Matches(r" ?[^(\s|.,!?…。，、।۔،)]+")],
        ..BASE
    },
    Split {
        names: &["viking"],
        steps: &[Matches(r" ?[^(\s|.,!?…。，、।۔،)]+"), Matches(r"\p{N}")],
        ..BASE
    },
    Split {
        names: &["gemma4"],
        steps: &[Matches(r"[^\n]+|\n+")],
        alphabet: Alphabet::Text,
        whole_words_first: true,
        ..BASE
    },
];

/// All names, for messages.
pub fn known() -> String {
    let mut names: Vec<&str> = SPLITS
        .iter()
        .flat_map(|split| split.names)
        .copied()
        .collect();
    names.retain(|name| !name.is_empty());
    names.sort_unstable();
    names.join(", ")
}

pub fn find(name: &str) -> Result<&'static Split, String> {
    let found = SPLITS.iter().find(|split| split.names.contains(&name));
    found.ok_or_else(|| {
        let known = known();
        format!("its pre-tokenizer \"{name}\" is not known; known are {known}")
    })
}

impl Split {
    pub fn pre_tokenizer(&self) -> Result<Option<PreTokenizerWrapper>, String> {
        let mut steps = vec![];
        for step in self.steps {
            steps.push(match step {
                Matches(pattern) => {
                    let pattern = SplitPattern::Regex(pattern.to_string());
                    let cut = Cut::new(pattern, Isolated, false).map_err(|e| e.to_string())?;
                    PreTokenizerWrapper::Split(cut)
                }
                EachDigit => PreTokenizerWrapper::Digits(Digits::new(true)),
                Step::Punctuation => PreTokenizerWrapper::Punctuation(Punctuation::new(Contiguous)),
            });
        }
        if self.alphabet == Alphabet::Bytes {
            steps.push(PreTokenizerWrapper::ByteLevel(ByteLevel::new(
                false, false, false,
            )));
        }
        Ok(Some(PreTokenizerWrapper::Sequence(Sequence::new(steps))))
    }
}
