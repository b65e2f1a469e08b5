//! GBNF: what it means in llama.cpp is what it means here.
use super::*;

fn accepts(text: &str, accepted: &[&str], rejected: &[&str]) {
    let grammar = Grammar::from_ebnf(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    check(text, &grammar, accepted, rejected);
}

fn fault(text: &str) -> String {
    match Grammar::from_ebnf(text) {
        Ok(_) => "it was read".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn texts_classes_and_repetitions() {
    accepts(
        "root ::= \"yes\" | \"no\"",
        &["yes", "no"],
        &["", "y", "yesno", "maybe"],
    );
    accepts("root ::= [0-9]+", &["0", "123"], &["", "a", "1a"]);
    accepts(
        "root ::= [^a-c\\n]",
        &["d", "é", "-"],
        &["a", "c", "\n", "", "dd"],
    );
    accepts(
        "root ::= [a-c-]+ [\\]x]",
        &["a-b]", "cx"],
        &["d]", "]", "a"],
    );
    accepts("root ::= . \"!\"", &["a!", "🍞!", "\n!"], &["!", "ab!"]);
    accepts(
        "root ::= \"a\"? \"b\"* \"c\"+",
        &["c", "abbcc", "bc"],
        &["", "aac", "ab"],
    );
    accepts(
        "root ::= \"a\"{2} \"b\"{1,} \"c\"{0,2}",
        &["aab", "aabbcc"],
        &["ab", "aa", "aabccc"],
    );
    accepts(
        "root ::= (\"ab\"){2,3}",
        &["abab", "ababab"],
        &["ab", "aba", "abababab"],
    );
    accepts(
        "root ::= \"\\x41\\u00e9\\U0001F35E\\\"\\\\\\t\"",
        &["Aé🍞\"\\\t"],
        &["A", "Aé🍞\"\\"],
    );
    accepts("root ::= \"\"", &[""], &["a"]);
    accepts("root ::= \"a\" |", &["a", ""], &["b", "aa"]);
}

#[test]
fn rules_lines_and_comments() {
    accepts(
        "# a comment\nroot ::= first   # another\n  | second\n\nfirst ::=\n  \"a\" (\n  \"b\"\n  )\nsecond ::= \"c-\" third-1\nthird-1 ::= [xy]",
        &["ab", "c-x", "c-y"],
        &["a", "c-", "c-z", "abc-x"],
    );
}

#[test]
fn recursion_of_all_kinds() {
    accepts(
        "root ::= \"(\" root \")\" | \"x\"",
        &["x", "(x)", "(((x)))"],
        &["", "(x", "x)", "((x)"],
    );
    accepts(
        "root ::= root \"+\" n | n\nn ::= [0-9]+",
        &["1", "1+2", "12+3+4"],
        &["", "+", "1+", "1++2"],
    );
    accepts("root ::= [a-z] root | [a-z]", &["a", "abc"], &["", "a1"]);
    accepts(
        "root ::= \"a\" ws \"b\"\nws ::= ([ \\t\\n] ws)?",
        &["ab", "a \t\nb"],
        &["a", "axb"],
    );
    accepts(
        "root ::= (root \"a\")? \"b\"",
        &["b", "bab", "babab"],
        &["", "a", "ba"],
    );
    accepts(
        "root ::= a\na ::= \"x\" b | \"y\"\nb ::= \"z\" a | \"w\"",
        &["y", "xw", "xzy", "xzxw"],
        &["x", "xz", "z"],
    );
}

/// A text could begin them, and would never be complete.
#[test]
fn rules_that_never_end_are_left_out() {
    accepts(
        "root ::= (\"ba\" x){0,2} \"c\"\nx ::= x",
        &["c"],
        &["b", "ba", "bac"],
    );
    accepts(
        "root ::= y | [a-b] x? | \"aa\" y*\nx ::= \"b\" y\ny ::= \"b\" y (\"ab\"){0,2}",
        &["a", "b", "aa"],
        &["bb", "ab", "aab"],
    );
}

/// A lexer that takes the longest match gets these wrong.
#[test]
fn the_longest_match_is_not_always_the_right_one() {
    accepts(
        "root ::= e\ne ::= w \"ab\" | \"(\" e \")\"\nw ::= [a-z]+",
        &["xab", "abab", "(aab)"],
        &["ab", "x", "(ab)"],
    );
    accepts(
        "root ::= (\"a\" \"bc\" | \"ab\" \"d\") r\nr ::= \"(\" r \")\" | \"\"",
        &["abc", "abd", "abd(())"],
        &["ab", "abcd", "abd("],
    );
    accepts(
        "root ::= x root | y\nx ::= \"a\" | \"aab\"\ny ::= \"ac\" | \"aa\"",
        &["ac", "aac", "aa", "aabac", "aaabaa"],
        &["a", "aab", "abac"],
    );
    accepts(
        "root ::= s\ns ::= [a-z]* \"x\" t\nt ::= \"[\" s \"]\" | \"\"",
        &["x", "xx", "axbx", "ax[bx]"],
        &["", "a", "ax[b]", "xb"],
    );
}

const JSON: &str = r#"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"#;

#[test]
fn llama_cpps_json() {
    accepts(
        JSON,
        &[
            "{}",
            "{\"a\": 1}",
            "{\"a\": [1, 2.5e-3, \"x\\n\"], \"b\": {\"c\": null}}",
            "{\n  \"a\":\n  true}",
        ],
        &[
            "",
            "[]",
            "{\"a\"}",
            "{\"a\": 01}",
            "{\"a\": 1,}",
            "{\"a\": \"\n\"}",
            "{}}",
        ],
    );
}

#[test]
fn faults_tell_line_and_column() {
    for (text, expected) in [
        ("root ::= \"a", "line 1, column 10: this text is not closed"),
        ("root ::= [a", "line 1, column 10: this class is not closed"),
        (
            "root ::= [z-a]",
            "line 1, column 11: the range 'z'-'a' is backwards",
        ),
        (
            "root ::= []",
            "line 1, column 10: this class has no characters",
        ),
        (
            "root ::= (\"a\"",
            "line 1, column 10: this bracket is not closed",
        ),
        (
            "root ::= \"a\")",
            "line 1, column 13: no bracket is open here",
        ),
        (
            "root ::= \"a\"\nb ::= missing",
            "line 2, column 7: the rule `missing` is not defined",
        ),
        ("a ::= \"a\"", "line 1, column 1: there is no rule `root`"),
        (
            "root ::= \"a\"\nroot ::= \"b\"",
            "line 2, column 1: the rule `root` is already defined in line 1",
        ),
        (
            "root ::= \"a\"{3,2}",
            "line 1, column 13: a repetition from 3 to 2 is empty",
        ),
        (
            "root ::= \"a\"{x}",
            "line 1, column 14: a repetition's count",
        ),
        (
            "root ::= \"a\"{99999}",
            "line 1, column 14: a repetition's count is a number up to 4096",
        ),
        (
            "root ::= \"\\q\"",
            "line 1, column 11: \\q is not an escape",
        ),
        (
            "root ::= \"\\uD800\"",
            "line 1, column 11: U+D800 is not a character",
        ),
        (
            "root ::= a $ b\na ::= \"a\"\nb ::= \"b\"",
            "line 1, column 12: '$' is not expected here",
        ),
        (
            "root ::= \"a\"\n= b",
            "line 2, column 1: '=' is not expected here",
        ),
    ] {
        assert!(fault(text).starts_with(expected), "{text}: {}", fault(text));
    }
    let deep = format!("root ::= {}\"a\"{}", "(".repeat(500), ")".repeat(500));
    assert!(fault(&deep).contains("nested more than 128 deep"));
}

/// Each would take minutes or gigabytes to translate.
#[test]
fn grammars_that_grow_as_they_are_translated_are_refused() {
    let kind = |text: &str| match Grammar::from_ebnf(text) {
        Ok(_) => panic!("it is read: {}", &text[..60]),
        Err(error) => error.kind,
    };
    // `b` has as many parts as a rule may have that is written out wherever it is used.
    let many = format!(
        "root ::= {}\nb ::= {}\n",
        "b ".repeat(5_000),
        "[ac] ".repeat(2_000)
    );
    assert_eq!(kind(&many), ErrorKind::TooLarge);
    let stars = format!("root ::= \"a\"{}", "*".repeat(500_000));
    assert_eq!(kind(&stars), ErrorKind::TooLarge);
    let mut rules = String::from("root ::= r0\n");
    for n in 0..20_000 {
        rules += &format!("r{n} ::= r{}\n", n + 1);
    }
    assert_eq!(kind(&(rules + "r20000 ::= \"a\"\n")), ErrorKind::TooLarge);
    // Rules that end only because of the rule before, of which each look finds one.
    let mut backwards = String::from("root ::= r9000\nr0 ::= \"a\"\n");
    for n in 1..=9_000 {
        backwards += &format!("r{n} ::= r{} {}\n", n - 1, "r0 ".repeat(20));
    }
    assert_eq!(kind(&backwards), ErrorKind::TooSlow);
    // Pieces in which each character may follow each other.
    let letters: Vec<String> = (0..900)
        .map(|n| format!("[\\U{:08X}]", 0x1_0000 + 2 * n))
        .collect();
    let pieces: Vec<String> = (0..900)
        .map(|n| format!("[\\U{:08X}]* root", 0x1_0000 + 2 * n))
        .collect();
    for all in [
        format!("({})* root", letters.join(" | ")),
        pieces.join(" | "),
    ] {
        let made = Grammar::from_ebnf(&format!("root ::= \"x\" | {all}"));
        let is_small = |grammar: Grammar| grammar.bytes() < limits::LARK_BYTES;
        assert!(made.map_or_else(|e| e.kind == ErrorKind::TooSlow, is_small));
    }
}

#[test]
fn counts_may_have_blanks() {
    accepts("root ::= \"a\"{ 2 , 3 }", &["aa", "aaa"], &["a", "aaaa"]);
    accepts("root ::= \"a\"{2, }", &["aa", "aaa"], &["a"]);
    accepts("root ::= \"a\"{ 2 }", &["aa"], &["a", "aaa"]);
}

#[test]
fn large_grammars_are_bounded() {
    // Each rule is twice the one before.
    let mut doubling = String::from("root ::= r40\nr0 ::= \"a\"\n");
    for n in 1..=40 {
        doubling += &format!("r{n} ::= r{} r{}\n", n - 1, n - 1);
    }
    let grammar = Grammar::from_ebnf(&doubling);
    assert!(grammar.is_ok(), "{:?}", grammar.err());
    let mut long = String::from("root ::= r0\n");
    for n in 0..5_000 {
        long += &format!("r{n} ::= \"a\" r{}\n", n + 1);
    }
    long += "r5000 ::= \"b\"\n";
    let grammar = Grammar::from_ebnf(&long);
    assert!(grammar.is_ok() || grammar.is_err_and(|e| e.kind == ErrorKind::TooLarge));
}
