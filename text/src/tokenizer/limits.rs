//! Limits of a vocabulary and of a text. Real ones stay far below.

/// The most tokens that a vocabulary may have.
pub const TOKENS: usize = 1 << 22;
/// Bytes of one token.
pub const TOKEN_BYTES: usize = 1 << 12;
/// Merges of a BPE vocabulary.
pub const MERGES: usize = 1 << 23;
/// Tokens that are looked for in every text (special and user-defined ones), and their bytes.
pub const ADDED_TOKENS: usize = 1 << 17;
pub const ADDED_BYTES: usize = 1 << 21;
/// Bytes of a `tokenizer.json`.
pub const JSON_BYTES: usize = 256 << 20;
/// Arrays and objects of a `tokenizer.json` within one another: the crate panics near serde's own limit.
pub const JSON_DEPTH: usize = 64;
/// Bytes of one text to encode. It takes up to a hundred bytes of memory for each.
pub const TEXT_BYTES: usize = 4 << 20;
/// The same for tokenizers that the crate runs, which need hundreds of bytes for each token.
pub const TEXT_BYTES_BY_CRATE: usize = 1 << 20;

pub fn check_size(whose: &str, tokens: usize) -> Result<(), String> {
    if tokens > TOKENS {
        return Err(format!(
            "{whose} has {tokens} tokens, more than {TOKENS}: the file is damaged, or not a model"
        ));
    }
    Ok(())
}

pub fn check_text(text: &str, limit: usize) -> Result<(), String> {
    if text.len() > limit {
        let len = text.len();
        return Err(format!(
            "a text of {len} bytes is more than the {limit} that can be encoded at once: encode it in parts"
        ));
    }
    Ok(())
}

/// `contents`: of the special and user-defined tokens.
pub fn check_added<'a>(contents: impl Iterator<Item = &'a str>) -> Result<(), String> {
    let (mut count, mut bytes) = (0, 0);
    for content in contents {
        count += 1;
        bytes += content.len();
    }
    if count > ADDED_TOKENS || bytes > ADDED_BYTES {
        return Err(format!(
            "the vocabulary has {count} special and added tokens of {bytes} bytes, more than {ADDED_TOKENS} or \
             {ADDED_BYTES}: it is damaged"
        ));
    }
    Ok(())
}

/// Before anything is built of it.
pub fn check_depth(json: &[u8]) -> Result<(), String> {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for &byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JSON_DEPTH {
            return Err(format!(
                "it is nested more than {JSON_DEPTH} deep: it is damaged, or not a tokenizer.json"
            ));
        }
    }
    Ok(())
}

/// A table of normalisations of `bytes` bytes, which begins with the size of its first part. The crate makes room for
/// that part before it looks whether it is there.
pub fn check_charsmap(first: [u8; 4], bytes: usize) -> Result<(), String> {
    let size = u32::from_le_bytes(first) as usize;
    if !size.is_multiple_of(4) || size > bytes.saturating_sub(4) {
        return Err(format!(
            "its table of normalisations (precompiled_charsmap) has {bytes} bytes, too few for the {size} that it \
             announces: it is damaged"
        ));
    }
    Ok(())
}

/// A token takes more than four bytes to write down: a small file that names a high id leaves a huge gap below it.
pub fn check_gaps(tokens: usize, bytes: usize) -> Result<(), String> {
    if tokens > bytes / 4 + (1 << 16) {
        return Err(format!(
            "its ids go up to {tokens}, but a file of {bytes} bytes cannot hold that many tokens: it is damaged"
        ));
    }
    Ok(())
}
