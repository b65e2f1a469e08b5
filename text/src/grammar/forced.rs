//! The tokens that must come next, as the tokenizer writes them.
//!
//! A grammar forces bytes. The tokenizer may write their end in several ways: a token that begins inside them may reach
//! beyond them, and then the bytes before it are written as if the text ended there. So every place where such a token
//! may begin is a cut, and the end of the bytes is one. The tokens that the tokenizer writes before every cut are
//! forced. The others are left to the model.
use super::limits;
use llguidance::earley::ParserRecognizer;
use llguidance::toktrie::{TokEnv, TokTrie};

/// How many tokens of the text are encoded together with the bytes behind them. If the tokenizer would not have written
/// these tokens, the model did not follow it, and fewer are taken.
const CONTEXTS: [usize; 3] = [limits::CONTEXT, 2, 0];

/// The tokens that every text begins with that goes on behind `before` with `bytes` and then follows the grammar.
/// `parser` is behind the bytes, and `before` are the last tokens of the text, at most [`limits::CONTEXT`].
pub fn tokens(
    env: &TokEnv,
    parser: &mut ParserRecognizer<'_>,
    before: &[u32],
    bytes: &[u8],
) -> Vec<u32> {
    let trie = env.tok_trie();
    let is_text = |token: &&u32| !trie.token(**token).is_empty() && !trie.is_special_token(**token);
    let count = before.iter().rev().take_while(is_text).count();
    let before = &before[before.len() - count..];
    if bytes.len() > limits::FORCED_BYTES {
        return of_long(env, before, bytes);
    }
    if !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
        return of_text(env, parser, before, bytes);
    }
    // No token reaches over a special one.
    let (tokens, specials_end) = env.tokenize_bytes_marker(bytes);
    if specials_end == 0 {
        return Vec::new();
    }
    let rest = tokens[specials_end..].iter();
    let rest: usize = rest.map(|token| trie.token_len(*token)).sum();
    let (front, rest) = bytes.split_at(bytes.len() - rest);
    let mut forced = in_context(before, |before| {
        behind(env, before, front, |text| env.tokenize_bytes_marker(text).0)
    });
    forced.extend(of_text(env, parser, &[], rest));
    forced
}

/// The first tokens of a text of many bytes. The text after them is known, so tokens that end far enough before the end
/// are final.
fn of_long(env: &TokEnv, before: &[u32], bytes: &[u8]) -> Vec<u32> {
    let mut end = limits::FORCED_BYTES;
    while !ends_a_character(&bytes[..end]) {
        end -= 1;
    }
    let mut forced = in_context(before, |before| {
        behind(env, before, &bytes[..end], |text| {
            env.tokenize_bytes_marker(text).0
        })
    });
    let mut left = end - limits::TOKEN_BYTES;
    let fits = forced.iter().take_while(|token| {
        let length = env.tok_trie().token_len(**token);
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    });
    let count = fits.count();
    forced.truncate(count);
    forced
}

fn of_text(
    env: &TokEnv,
    parser: &mut ParserRecognizer<'_>,
    before: &[u32],
    bytes: &[u8],
) -> Vec<u32> {
    let cuts = cuts(env.tok_trie(), parser, bytes);
    if cuts.contains(&0) || cuts.len() > limits::CUTS {
        return Vec::new();
    }
    in_context(before, |before| {
        let mut common: Option<Vec<u32>> = None;
        for cut in &cuts {
            let tokens = behind(env, before, &bytes[..*cut], |text| env.tokenize_bytes(text))?;
            common = Some(match common {
                Some(common) => shared(common, &tokens),
                None => tokens,
            });
        }
        common
    })
}

/// The answer for the longest context that has one.
fn in_context(before: &[u32], ask: impl Fn(&[u32]) -> Option<Vec<u32>>) -> Vec<u32> {
    CONTEXTS
        .iter()
        .find_map(|count| ask(&before[before.len().saturating_sub(*count)..]))
        .unwrap_or_default()
}

/// The tokens of `bytes` behind the tokens `before`. None if the tokenizer would have written those otherwise.
fn behind(
    env: &TokEnv,
    before: &[u32],
    bytes: &[u8],
    encode: impl Fn(&[u8]) -> Vec<u32>,
) -> Option<Vec<u32>> {
    let mut text: Vec<u8> = before
        .iter()
        .flat_map(|token| env.tok_trie().token(*token))
        .copied()
        .collect();
    text.extend_from_slice(bytes);
    let mut tokens = encode(&text);
    tokens.starts_with(before).then(|| {
        tokens.drain(..before.len());
        tokens
    })
}

fn shared(mut tokens: Vec<u32>, others: &[u32]) -> Vec<u32> {
    let same = tokens.iter().zip(others).take_while(|(a, b)| a == b);
    tokens.truncate(same.count());
    tokens
}

/// Where the last token that lies within the bytes may end, at the ends of characters.
fn cuts(trie: &TokTrie, parser: &mut ParserRecognizer<'_>, bytes: &[u8]) -> Vec<usize> {
    let end = bytes.len();
    let longest = trie.max_token_len();
    let mut ahead = vec![end];
    ahead.extend(
        (end.saturating_sub(longest)..end)
            .filter(|at| trie.has_valid_extensions(parser, &bytes[*at..])),
    );
    // Many tokenizers split a run of blanks before its last one, where a word follows.
    if end >= 2 && bytes[end - 2..].iter().all(u8::is_ascii_whitespace) {
        ahead.push(end - 1);
    }
    let mut seen = vec![false; end + 1];
    let mut found = Vec::new();
    while let Some(at) = ahead.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        if ends_a_character(&bytes[..at]) {
            found.push(at);
            continue;
        }
        // The tokenizer encodes whole characters. What ends inside one is followed back, token by token.
        let starts = at.saturating_sub(longest)..at;
        ahead.extend(starts.filter(|start| trie.token_id_at_bytes(&bytes[*start..at]).is_some()));
    }
    found
}

/// Whether no character of UTF-8 is cut at the end.
fn ends_a_character(bytes: &[u8]) -> bool {
    for (behind, byte) in bytes.iter().rev().take(4).enumerate() {
        let length = match byte {
            0x80..=0xBF => continue,
            0xF0.. => 4,
            0xE0.. => 3,
            0xC0.. => 2,
            _ => 1,
        };
        return behind + 1 >= length;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_are_cut_are_seen() {
        let text = "aé€\u{1F35E}".as_bytes();
        let whole: Vec<usize> = (0..=text.len())
            .filter(|at| ends_a_character(&text[..*at]))
            .collect();
        assert_eq!(whole, [0, 1, 3, 6, 10]);
        assert!(ends_a_character(&text[2..3]), "the rest of a character");
    }

    #[test]
    fn the_tokens_that_all_share_are_kept() {
        assert_eq!(shared(vec![1, 2, 3], &[1, 2, 4, 5]), [1, 2]);
        assert_eq!(shared(vec![1, 2], &[1, 2, 3]), [1, 2]);
        assert!(shared(vec![1], &[]).is_empty());
    }
}
