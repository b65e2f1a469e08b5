//! The regular expression of a pre-tokenizer, which guests can ask for.
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

/// The pattern by which the crate's byte-level pre-tokenizer cuts.
pub const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// Several steps are given as alternatives, in their order. Empty if no step uses a pattern.
pub fn of(pre_tokenizer: Option<&PreTokenizerWrapper>) -> String {
    let mut patterns = vec![];
    if let Some(pre_tokenizer) = pre_tokenizer {
        collect(pre_tokenizer, &mut patterns);
    }
    patterns.join("|")
}

fn collect(pre_tokenizer: &PreTokenizerWrapper, patterns: &mut Vec<String>) {
    match pre_tokenizer {
        PreTokenizerWrapper::Sequence(all) => {
            all.as_ref().iter().for_each(|one| collect(one, patterns))
        }
        PreTokenizerWrapper::ByteLevel(bytes) if bytes.use_regex => patterns.push(GPT2.into()),
        PreTokenizerWrapper::Split(split) => patterns.push(match &split.pattern {
            SplitPattern::Regex(regex) => regex.clone(),
            SplitPattern::String(text) => escape(text),
        }),
        PreTokenizerWrapper::Digits(digits) if digits.individual_digits => {
            patterns.push(r"\p{N}".into())
        }
        PreTokenizerWrapper::Digits(_) => patterns.push(r"\p{N}+".into()),
        PreTokenizerWrapper::Punctuation(_) => patterns.push(r"[\p{P}$+<=>^`|~]".into()),
        PreTokenizerWrapper::Whitespace(_) => patterns.push(r"\w+|[^\w\s]+".into()),
        PreTokenizerWrapper::WhitespaceSplit(_) => patterns.push(r"\S+".into()),
        PreTokenizerWrapper::BertPreTokenizer(_) => {
            patterns.push(r"[\p{P}$+<=>^`|~]|[^\s\p{P}$+<=>^`|~]+".into())
        }
        _ => {} // cut by character, by length or by script
    }
}

pub fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
