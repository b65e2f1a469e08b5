//! Functions of a matcher besides accepting and refusing tokens.
use super::*;

fn ab() -> Grammar {
    Grammar::from_regex("(ab)*c").unwrap()
}

#[test]
fn masks_are_runs_and_bits() {
    let mut matcher = BYTES.matcher(&ab(), 0).unwrap();
    let mask = matcher.mask().unwrap();
    assert_eq!(mask.runs(), [97, 1, 1, 1]); // a and c
    assert_eq!(mask.count(), 2);
    assert_eq!(mask.bits()[3], 1 << 1 | 1 << 3);
    assert!(mask.allows(97) && !mask.allows(98) && !mask.allows(9_999));
    matcher.accept(&tokens("abc")).unwrap();
    assert_eq!(matcher.mask().unwrap().runs(), [256, 1]);
}

#[test]
fn the_memory_of_a_compiled_grammar_is_known() {
    let small = BYTES.matcher(&ab(), 0).unwrap();
    assert!(small.compiled().bytes() > 1_000);
    let words: Vec<String> = (0..500).map(|n| format!("\"word {n}\"")).collect();
    let lark = format!("start: {}", words.join(" | "));
    let large = BYTES
        .matcher(&Grammar::from_ebnf(&lark).unwrap(), 0)
        .unwrap();
    assert!(large.compiled().bytes() > 2 * small.compiled().bytes());
    assert!(Arc::ptr_eq(large.compiled(), large.fork().compiled()));
}

#[test]
fn the_memory_of_a_grammar_is_known() {
    let lark = format!("start: \"{}\"", "a".repeat(10_000));
    assert!(Grammar::from_ebnf(&lark).unwrap().bytes() >= 20_000);
    let numbers: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    let schema = format!(r#"{{"enum": [{}]}}"#, numbers.join(","));
    let bytes = Grammar::from_json_schema(&schema).unwrap().bytes();
    assert!((10_000..1_000_000).contains(&bytes), "{bytes}");
    assert!(Grammar::json().bytes() < 1_000);
}

#[test]
fn the_memory_of_a_text_is_known() {
    let any = Grammar::from_regex("(.|\n)*").unwrap();
    let mut matcher = BYTES.matcher(&any, 0).unwrap();
    matcher.accept(&tokens(&"a".repeat(100_000))).unwrap();
    let bytes = matcher.bytes();
    assert!((1_000_000..100_000_000).contains(&bytes), "{bytes}");
    let fork = matcher.fork().bytes();
    assert!((1_000_000..=bytes + 1_000_000).contains(&fork), "{fork}");
    matcher.rollback(100_000).unwrap();
    let short = matcher.fork().bytes();
    assert!(short < bytes / 2, "{short} of {bytes}");
}

#[test]
fn refused_tokens_change_nothing() {
    let mut matcher = BYTES.matcher(&ab(), 0).unwrap();
    let error = matcher.accept(&tokens("abb")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert_eq!(error.text, "token 98 does not fit the grammar (position 2)");
    assert_eq!(matcher.taken(), 0);
    assert!(matcher
        .accept(&tokens("b"))
        .unwrap_err()
        .text
        .contains("cannot begin"));
    matcher.accept(&tokens("ab")).unwrap();
    assert!(matcher
        .accept(&[258])
        .unwrap_err()
        .text
        .contains("outside the vocabulary of 258"));
    matcher.accept(&tokens("c")).unwrap();
    matcher.accept(&[END]).unwrap();
    assert!(matcher.is_terminated());
    assert!(matcher.accept(&tokens("a")).is_err());
}

#[test]
fn rollback_takes_back_tokens() {
    let mut matcher = BYTES.matcher(&ab(), 0).unwrap();
    matcher.accept(&tokens("ababc")).unwrap();
    assert!(matcher.is_terminated());
    matcher.rollback(3).unwrap();
    assert!(!matcher.is_terminated());
    assert_eq!(matcher.mask().unwrap().count(), 2);
    matcher.accept(&tokens("c")).unwrap();
    assert_eq!(
        matcher.rollback(9).unwrap_err().text,
        "cannot take back 9 tokens: the matcher has taken 3"
    );
    matcher.rollback(3).unwrap();
    assert_eq!(matcher.taken(), 0);
}

#[test]
fn forks_go_their_own_ways() {
    let mut one = BYTES.matcher(&ab(), 0).unwrap();
    one.accept(&tokens("a")).unwrap();
    let mut other = one.fork();
    one.accept(&tokens("bc")).unwrap();
    assert!(one.is_terminated() && !other.is_terminated());
    other.accept(&tokens("ba")).unwrap();
    other.rollback(3).unwrap();
    assert_eq!(other.mask().unwrap().count(), 2);
}

#[test]
fn reset_begins_again() {
    let mut matcher = BYTES.matcher(&ab(), 0).unwrap();
    matcher.accept(&tokens("abc")).unwrap();
    matcher.accept(&[END]).unwrap();
    matcher.reset();
    assert!(!matcher.is_terminated());
    matcher.accept(&tokens("c")).unwrap();
}

#[test]
fn what_must_come_is_told() {
    let grammar = Grammar::from_regex("(true|false) and so on").unwrap();
    let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
    assert!(matcher.forced_tokens().is_empty());
    matcher.accept(&tokens("t")).unwrap();
    assert_eq!(matcher.forced_tokens(), tokens("rue and so on"));
    assert_eq!(matcher.taken(), 1);
}

#[test]
fn compiled_grammars_are_kept() {
    let grammar = Grammar::from_regex("kept{3}").unwrap();
    assert!(!BYTES.has(&grammar));
    let first = BYTES.compile(&grammar, 0).unwrap();
    assert!(BYTES.has(&Grammar::from_regex("kept{3}").unwrap()));
    assert!(Arc::ptr_eq(&first, &BYTES.compile(&grammar, 0).unwrap()));
    assert!(!BYTES.has(&Grammar::from_ebnf("start: /kept{3}/").unwrap()));
}

#[test]
fn a_grammar_that_many_need_at_once_is_compiled_once() {
    let threads = 6;
    for n in 0..8 {
        let grammar = Grammar::from_regex(&format!("(at|once){{{},200}}", n + 1)).unwrap();
        let together = std::sync::Barrier::new(threads);
        let made: Vec<Arc<Compiled>> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|thread| {
                    let (together, grammar) = (&together, &grammar);
                    scope.spawn(move || {
                        together.wait();
                        BYTES.compile(grammar, 100 + thread as u64).unwrap()
                    })
                })
                .collect();
            running.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(made.iter().all(|one| Arc::ptr_eq(one, &made[0])));
    }
}

#[test]
fn the_oldest_grammar_goes() {
    let tokenizer = Tokenizer::from_bytes(&["<|end|>"]).unwrap();
    let vocabulary = Vocabulary::new(Arc::new(tokenizer), &[END]).unwrap();
    let numbered = |n: usize| Grammar::from_regex(&format!("n{n}")).unwrap();
    for n in 0..=limits::KEPT {
        vocabulary.compile(&numbered(n), 0).unwrap();
        vocabulary.compile(&numbered(0), 0).unwrap();
    }
    assert!(vocabulary.has(&numbered(0)) && !vocabulary.has(&numbered(1)));
}

#[test]
fn nobody_loses_grammars_because_another_has_many() {
    let tokenizer = Tokenizer::from_bytes(&["<|end|>"]).unwrap();
    let vocabulary = Vocabulary::new(Arc::new(tokenizer), &[END]).unwrap();
    let of = |owner: char, n: usize| Grammar::from_regex(&format!("{owner}{n}")).unwrap();
    for n in 0..3 {
        vocabulary.compile(&of('a', n), 1).unwrap();
    }
    for n in 0..2 * limits::KEPT {
        vocabulary.compile(&of('b', n), 2).unwrap();
    }
    assert!((0..3).all(|n| vocabulary.has(&of('a', n))));
    let theirs = (0..2 * limits::KEPT).filter(|n| vocabulary.has(&of('b', *n)));
    assert_eq!(theirs.count(), limits::KEPT - 3);
}

#[test]
fn matchers_run_on_several_threads() {
    let grammar = Grammar::json();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(passes(&grammar, "{\"a\": [1, 2, {\"b\": \"c\"}]}").unwrap()));
        }
    });
}

#[test]
fn grammars_keep_their_text() {
    assert_eq!(ab().text(), "(ab)*c");
    assert_eq!(ab().kind(), Kind::Regex);
    assert_eq!(Grammar::json().kind(), Kind::Json);
    assert_eq!(
        Grammar::from_ebnf("root ::= \"a\"").unwrap().kind(),
        Kind::Gbnf
    );
    assert_eq!(
        Grammar::from_ebnf("start: \"a\"").unwrap().kind(),
        Kind::Lark
    );
}

#[test]
fn regexes_match_from_end_to_end() {
    for (pattern, accepted, rejected) in [
        ("a|bc", &["a", "bc"][..], &["", "b", "abc", "aa"][..]),
        ("^a+$", &["a", "aa"], &["", "b", "ab"]),
        ("a\\$", &["a$"], &["a"]),
        ("", &[""], &["a"]),
        ("(a+)+", &["a", "aaaaaaaaaaaaaaaaaaaaaaaa"], &["", "aaab"]),
        ("[^/]+/\\d{2}", &["x/12"], &["/12", "x/1", "x/1a"]),
        (".*", &["", "any thing"], &["a\nb"]),
        ("é{2}", &["éé"], &["é", "ééé"]),
    ] {
        check(
            pattern,
            &Grammar::from_regex(pattern).unwrap(),
            accepted,
            rejected,
        );
    }
}

#[test]
fn lark_is_taken_as_it_is() {
    let lark = "start: greeting \" \" NAME\ngreeting: \"hello\" | \"hi\"\nNAME: /[a-z]+/";
    check(
        lark,
        &Grammar::from_ebnf(lark).unwrap(),
        &["hello you", "hi a"],
        &["hello", "hey you", "hi A", "hi "],
    );
}

#[test]
fn special_tokens_are_named_in_lark() {
    let grammar = Grammar::from_ebnf("start: \"a\" <|call|> \"b\"").unwrap();
    let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
    matcher.accept(&tokens("a")).unwrap();
    assert_eq!(matcher.mask().unwrap().runs(), [257, 1]);
    matcher.accept(&[257]).unwrap();
    matcher.accept(&tokens("b")).unwrap();
    assert!(matcher.is_terminated());
}

#[test]
fn tokens_are_taken_back_where_rules_count_them() {
    let grammar = Grammar::from_lark(
        "start: few \".\" rest\nfew[max_tokens=3]: /[a-z]+/\nrest[stop=\";\"]: /[a-z]+/",
    )
    .unwrap();
    let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
    matcher.accept(&tokens("ab")).unwrap();
    let fork = matcher.fork();
    assert!(matcher.accept(&tokens("!")).is_err());
    matcher.accept(&tokens("c")).unwrap();
    let mask = matcher.mask().unwrap().runs();
    matcher.rollback(2).unwrap();
    matcher.accept(&tokens("xy")).unwrap();
    assert_eq!(matcher.mask().unwrap().runs(), mask);
    matcher.accept(&tokens(".ab")).unwrap();
    matcher.rollback(5).unwrap();
    matcher.accept(&tokens("b")).unwrap();
    assert_eq!(
        matcher.mask().unwrap().runs(),
        fork.fork().mask().unwrap().runs()
    );
    matcher.reset();
    matcher.accept(&tokens("abc.a")).unwrap();
}

#[test]
fn schemas_in_lark_are_enforced() {
    let grammar =
        Grammar::from_lark(r#"start: "x" %json {"type": "string", "not": {"const": "b"}} "y""#);
    let takes = |text: &str| passes(grammar.as_ref().unwrap(), text).unwrap();
    assert!(takes("x\"ab\"y") && !takes("x\"b\"y"));
    let fault = Grammar::from_lark("start: \"x\" %json {\"uniqueItems\": true}").unwrap_err();
    assert_eq!(fault.kind, ErrorKind::Unsupported);
}

#[test]
fn digits_are_of_all_scripts_in_expressions_and_ascii_in_schemas() {
    let regex = Grammar::from_regex("\\d\\w").unwrap();
    check("a regex", &regex, &["3a", "\u{663}é"], &["a3"]);
    let schema = Grammar::from_json_schema(r#"{"type": "string", "pattern": "^\\d\\w$"}"#).unwrap();
    check(
        "a schema",
        &schema,
        &["\"3a\""],
        &["\"\u{663}a\"", "\"3é\""],
    );
}
