//! Regular expressions of JSON Schema follow ECMA-262; the crate's syntax is another one.
use std::iter::Peekable;
use std::str::Chars;

/// The characters that `\s` matches.
const SPACE: &str =
    "\\t\\n\\x0b\\x0c\\r \\xa0\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}";

/// Writes an ECMA-262 expression so that the crate gives it the same meaning.
pub fn translated(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len());
    let pattern = without_stops(pattern);
    let mut chars = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => escape(&mut chars, in_class, &mut out)?,
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push(c);
                out.extend(chars.next_if_eq(&'^'));
                if chars.peek() == Some(&']') {
                    return Err("a class without characters".into());
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(c);
            }
            // Doubled, these are operators of classes in the crate's syntax.
            '&' | '~' if in_class => out.extend(['\\', c]),
            '-' if in_class && chars.peek() == Some(&'-') => {
                return Err("`--` in a class; write \\- for the character".into());
            }
            '{' if !in_class && chars.peek() == Some(&',') => {
                return Err("`{,` begins no count; write {0,".into());
            }
            '.' if !in_class => out.push_str("[^\\n\\r\\x{2028}\\x{2029}]"),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// What a backslash begins, which was read.
fn escape(chars: &mut Peekable<Chars>, in_class: bool, out: &mut String) -> Result<(), String> {
    let Some(c) = chars.next() else {
        out.push('\\'); // the crate's parser refuses it
        return Ok(());
    };
    match c {
        's' => *out += &format!("[{SPACE}]"),
        'S' => *out += &format!("[^{SPACE}]"),
        'b' if in_class => *out += "\\x08",
        '0' if chars.peek().is_none_or(|next| !next.is_ascii_digit()) => *out += "\\x00",
        'c' => {
            let letter = chars.next().filter(char::is_ascii_alphabetic);
            let letter = letter.ok_or("`\\c` needs a letter behind it")?;
            *out += &format!("\\x{:02x}", letter as u32 % 32);
        }
        'u' => match surrogates(chars) {
            Some(character) => *out += &format!("\\x{{{character:x}}}"),
            None => *out += "\\u",
        },
        // The crate's syntax has others, such as \A and \z, which have another meaning.
        c if c.is_ascii_alphabetic() && !"dDwWbBfnrtvxpPk".contains(c) => {
            return Err(format!("`\\{c}` is no escape of ECMA-262"));
        }
        c => out.extend(['\\', c]),
    }
    Ok(())
}

/// The character that two escapes stand for, as in `\ud83c\udf5e`. Its first backslash and `u` were read.
fn surrogates(chars: &mut Peekable<Chars>) -> Option<u32> {
    let mut ahead = chars.clone();
    let mut unit = || {
        let digits: String = ahead.by_ref().take(4).collect();
        u32::from_str_radix(&digits, 16).ok()
    };
    let high = unit().filter(|unit| (0xD800..0xDC00).contains(unit))?;
    if ahead.next() != Some('\\') || ahead.next() != Some('u') {
        return None;
    }
    let digits: String = ahead.by_ref().take(4).collect();
    let low = u32::from_str_radix(&digits, 16).ok();
    let low = low.filter(|unit| (0xDC00..0xE000).contains(unit))?;
    *chars = ahead;
    Some(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
}

/// The expression without the name `stop` of a group, which the crate takes for a look-ahead.
pub fn without_stops(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let (mut rest, mut in_class) = (pattern, false);
    while let Some(c) = rest.chars().next() {
        let group = ["(?<stop>", "(?P<stop>"]
            .into_iter()
            .find(|g| rest.starts_with(g));
        let taken = match (c, group) {
            (_, Some(group)) if !in_class => {
                out.push_str("(?:");
                rest = &rest[group.len()..];
                continue;
            }
            ('\\', _) => rest.chars().take(2).map(char::len_utf8).sum::<usize>(),
            _ => c.len_utf8(),
        };
        in_class = c == '[' || in_class && c != ']';
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}
