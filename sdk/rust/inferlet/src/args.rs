//! Command-line style arguments, for inferlets that prefer flags to JSON.

use std::ffi::OsString;

pub use pico_args::Arguments;

/// Flags from a list of words, as in `parse_args(["--n", "4"])`. Words are taken as they are: there is no
/// program name to skip.
pub fn parse_args<I>(words: I) -> Arguments
where
    I: IntoIterator,
    I::Item: Into<OsString>,
{
    Arguments::from_vec(words.into_iter().map(Into::into).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_flags_and_falls_back() {
        let mut args = parse_args(vec!["--n".to_string(), "7".to_string()]);
        assert_eq!(args.value_from_str("--n").unwrap_or(4), 7);
        assert_eq!(args.value_from_str("--m").unwrap_or(4), 4);
        let mut borrowed = parse_args(["--flag"]);
        assert!(borrowed.contains("--flag"));
    }
}
