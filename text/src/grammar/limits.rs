//! Limits on the cost of a grammar. Real ones stay far below.
use llguidance::api::ParserLimits;
use std::time::Duration;

/// Unoptimised code takes several times as much time and stack.
const SLOWER: u32 = if cfg!(debug_assertions) { 8 } else { 1 };

/// Bytes of a source.
pub const SOURCE_BYTES: usize = 2 << 20;
/// Brackets of a Lark or GBNF source within one another. (JSON has its own limit, 128.)
pub const DEPTH: usize = 128;
/// Parts of a GBNF rule that is still written out where it is used.
pub const WRITTEN_OUT: usize = 4_096;
/// Rules of a GBNF grammar. They are walked by recursion.
pub const RULES: usize = 10_000;
/// Parts of all rules together, when those that are not kept are written out.
pub const PARTS: usize = 200_000;
/// Bytes of a GBNF grammar that was translated to Lark.
pub const LARK_BYTES: usize = 4 << 20;
/// Repetitions of one another in GBNF, such as `a*+`.
pub const REPEATED: usize = 8;
/// The largest count of a repetition in GBNF.
pub const REPETITIONS: u32 = 4_096;
/// Schemas that the references of a schema lead to. The crate follows chains of them by recursion.
pub const DEFINITIONS: usize = 2_000;
/// How long the check of a source may take, and its work in units of `Budget`: a second or two, and some hundred megabytes.
pub const CHECK_TIME: Duration = Duration::from_secs(5 * SLOWER as u64);
pub const CHECK_WORK: usize = 50_000_000;
/// How long a grammar may take to compile.
pub const COMPILE_TIME: Duration = Duration::from_secs(5 * SLOWER as u64);
/// The tokens that a compilation writes ahead, and the time that it may take for them.
pub const AHEAD_TOKENS: usize = 32;
pub const AHEAD_TIME: Duration = Duration::from_millis(3);
/// How long the keyword that does not compile is looked for, and the bytes of a schema in which it is.
pub const BLAME_TIME: Duration = Duration::from_millis(400 * SLOWER as u64);
pub const BLAME_BYTES: usize = 64 << 10;
/// How many grammars are compiled at the same time.
pub const COMPILING: usize = 2;
/// The stack of a compilation: schemas and expressions are walked by recursion.
pub const STACK_BYTES: usize = (64 << 20) * SLOWER as usize;
/// Compiled grammars that a vocabulary keeps, and their bytes, with those of their sources.
pub const KEPT: usize = 128;
pub const KEPT_BYTES: usize = 256 << 20;
/// Lexers that the texts of a compiled grammar share, and what one may have cost before no further text uses it: the
/// states of one that costs more take too much memory.
pub const LEXERS: usize = 4;
pub const LEXER_COST: u64 = 500_000;
/// The bytes of what is kept for the masks of one lexer: by states, as much again by places, as much again by places where
/// bytes are forced, and the numbers of rows.
pub const LEXER_MASK_BYTES: usize = 2 << 20;
pub const ROW_BYTES: usize = 256 << 10;
/// Limit on the cost of finding out whether a lexer takes all texts of an expression, as in the crate.
pub const SLICE_BUDGET: u64 = 1_000;
/// The tokens in front of forced bytes that are encoded with them, and the most of these bytes that are encoded at once.
pub const CONTEXT: usize = 8;
pub const FORCED_BYTES: usize = 4_096;
/// Places where the tokens of forced bytes may end otherwise. Where there are more, none is forced.
pub const CUTS: usize = 16;
/// Bytes of one token. Longer ones are never allowed by a mask.
pub const TOKEN_BYTES: usize = 512;

pub fn parser() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2_000,
        initial_lexer_fuel: 2_000_000,
        step_lexer_fuel: 500_000,
        step_max_items: 200_000,
        max_lexer_states: 50_000, // one to two kilobytes each
        max_grammar_size: 500_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}
