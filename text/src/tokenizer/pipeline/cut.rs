//! The pre-tokenizers of language models: patterns one after another, and the byte-level alphabet at the end.
use crate::tokenizer::pieces::byte_level_char;
use crate::tokenizer::split_regex::GPT2;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::utils::SysRegex;
use tokenizers::SplitDelimiterBehavior as Behavior;

#[derive(Default)]
pub struct Cuts {
    steps: Vec<Step>,
    /// Pieces are written in the byte-level alphabet.
    in_bytes: bool,
}

enum Step {
    /// A match is a piece, and so is what lies between two.
    Isolate(SysRegex),
    /// A match is a piece; what lies between two is lost.
    Keep(SysRegex),
    /// A match belongs to the piece before it.
    EndWith(SysRegex),
    EachDigit,
    DigitRuns,
}

/// Gets pieces one by one.
type Take<'a> = dyn FnMut(&str) -> Result<(), String> + 'a;

impl Cuts {
    /// None if there is a step that only the crate can run.
    pub fn of(pre_tokenizer: Option<&PreTokenizerWrapper>) -> Option<Cuts> {
        let mut cuts = Cuts::default();
        if let Some(pre_tokenizer) = pre_tokenizer {
            cuts.add(pre_tokenizer)?;
        }
        Some(cuts)
    }

    fn add(&mut self, pre_tokenizer: &PreTokenizerWrapper) -> Option<()> {
        if let PreTokenizerWrapper::Sequence(all) = pre_tokenizer {
            return all.as_ref().iter().try_for_each(|one| self.add(one));
        }
        if self.in_bytes {
            return None; // only the crate can put the alphabet elsewhere than last
        }
        match pre_tokenizer {
            PreTokenizerWrapper::ByteLevel(bytes) if !bytes.add_prefix_space => {
                if bytes.use_regex {
                    self.steps.push(Step::Isolate(SysRegex::new(GPT2).ok()?));
                }
                self.in_bytes = true;
            }
            PreTokenizerWrapper::Digits(digits) => {
                self.steps.push(match digits.individual_digits {
                    true => Step::EachDigit,
                    false => Step::DigitRuns,
                })
            }
            PreTokenizerWrapper::Split(split) => {
                let regex = match &split.pattern {
                    SplitPattern::Regex(pattern) => SysRegex::new(pattern),
                    SplitPattern::String(text) => {
                        SysRegex::new(&super::super::split_regex::escape(text))
                    }
                };
                let regex = regex.ok()?;
                self.steps.push(match (split.behavior, split.invert) {
                    (Behavior::Isolated, _) => Step::Isolate(regex),
                    (Behavior::Removed, true) => Step::Keep(regex),
                    (Behavior::MergedWithPrevious, false) => Step::EndWith(regex),
                    _ => return None,
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// `spelled` is a buffer that is reused.
    pub fn run(&self, text: &str, spelled: &mut String, take: &mut Take) -> Result<(), String> {
        if !self.in_bytes {
            return run(&self.steps, text, take);
        }
        run(&self.steps, text, &mut |piece| {
            spelled.clear();
            spelled.extend(piece.bytes().map(byte_level_char));
            take(spelled)
        })
    }
}

fn run(steps: &[Step], text: &str, take: &mut Take) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        return match text {
            "" => Ok(()),
            text => take(text),
        };
    };
    let mut next = |piece: &str| match piece {
        "" => Ok(()),
        piece => run(rest, piece, take),
    };
    match step {
        Step::Isolate(regex) => {
            let mut done = 0;
            for (start, end) in regex.find_iter(text) {
                next(&text[done..start])?;
                next(&text[start..end])?;
                done = end;
            }
            next(&text[done..])
        }
        Step::Keep(regex) => {
            let mut found = regex.find_iter(text);
            found.try_for_each(|(start, end)| next(&text[start..end]))
        }
        Step::EndWith(regex) => end_with(regex, text, &mut next),
        Step::EachDigit => by_digits(text, true, &mut next),
        Step::DigitRuns => by_digits(text, false, &mut next),
    }
}

/// If two matches touch, only the first one joins the piece before it, as in the crate.
fn end_with(regex: &SysRegex, text: &str, next: &mut Take) -> Result<(), String> {
    let (mut piece, mut done, mut after_match) = (0, 0, false);
    for (start, end) in regex.find_iter(text) {
        if start > done {
            next(&text[piece..done])?;
            piece = done;
            after_match = false;
        }
        if after_match {
            next(&text[piece..done])?;
            piece = done;
        }
        done = end;
        after_match = true;
    }
    next(&text[piece..done])?;
    next(&text[done..])
}

fn by_digits(text: &str, each: bool, next: &mut Take) -> Result<(), String> {
    let (mut done, mut in_digits) = (0, false);
    for (at, c) in text.char_indices() {
        let digit = c.is_numeric();
        if digit != in_digits || (digit && each) {
            next(&text[done..at])?;
            done = at;
        }
        in_digits = digit;
    }
    next(&text[done..])
}
