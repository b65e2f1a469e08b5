//! How a text is cut before BPE, by the names that GGUFs give to it (`tokenizer.ggml.pre`). The patterns are those of
//! the models' own `tokenizer.json`.
use super::split_regex::GPT2;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split as Cut, SplitPattern};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::SplitDelimiterBehavior::{Contiguous, Isolated};

/// What the tokens are written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// GPT-2's: one character a byte.
    Bytes,
    /// The text itself, with ▁ for a space.
    Text,
}

/// One step; each cuts what the one before it left.
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
/// Behind the digits and the Chinese and Japanese runs.
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const HAN_KANA: &str = r"[一-龥\u3040-ゟ゠-ヿ]+";
/// Letters of the scripts that have cases.
const CASED: &str = "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const HAN_HANGUL: &str = "[一-龥ࠀ-一가-\u{d7ff}]+";

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
        nfc: true,
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
            Matches(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
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
    pub fn pre_tokenizer(&self) -> Result<Option<Sequence>, String> {
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
        Ok((!steps.is_empty()).then(|| Sequence::new(steps)))
    }
}
