use super::*;

fn changed(change: impl FnOnce(&mut Made)) -> String {
    let mut made = bytes_vocabulary();
    change(&mut made);
    made.error()
}

fn says(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

#[test]
fn what_is_not_known_is_named_with_what_is() {
    says(
        &changed(|m| m.model = "rwkv"),
        "\"rwkv\" are not known; known are gpt2",
    );
    let text = changed(|m| m.pre = "martian");
    says(&text, "\"martian\" is not known; known are ");
    says(&text, "smollm");
}

#[test]
fn tables_that_do_not_fit_are_refused() {
    says(&changed(|m| m.tokens.clear()), "no tokens");
    says(
        &changed(|m| m.types.truncate(5)),
        "262 tokens, but 5 entries in token_type",
    );
    says(&changed(|m| m.scores.truncate(5)), "5 entries in scores");
    says(&changed(|m| m.merges.clear()), "without merges");
    says(
        &changed(|m| m.merges[1] = "nospace".into()),
        "merge 1 is not a pair",
    );
    says(
        &changed(|m| m.merges[1] = "".into()),
        "merge 1 is not a pair",
    );
    says(
        &changed(|m| m.merges[1] = "foo bar".into()),
        "merge 1 is of \"foo\", which is not a token",
    );
    says(
        &changed(|m| m.special_ids = vec![262]),
        "special token 262 is outside",
    );
    says(
        &changed(|m| m.tokens[3] = "x".repeat(5000)),
        "token 3 has 5000 bytes",
    );
}

#[test]
fn scores_must_be_there_and_be_numbers() {
    let mut made = spm_vocabulary();
    made.scores[269] = f32::NAN;
    says(&made.error(), "score of token 269 is not a number");
    made.scores.clear();
    says(&made.error(), "without scores");
    made.model = "t5";
    says(&made.error(), "without scores");
}

#[test]
fn tokens_are_text() {
    let made = bytes_vocabulary();
    let mut vocabulary = made.vocabulary();
    vocabulary.tokens[9] = b"\xff\xfe";
    let error = Tokenizer::from_vocabulary(&vocabulary).err().unwrap();
    says(&error, "token 9 is not UTF-8");
    vocabulary.tokens[9] = b"ok";
    vocabulary.unknown = Some(4000);
    let error = Tokenizer::from_vocabulary(&vocabulary).err().unwrap();
    says(&error, "unknown token is outside");
}

#[test]
fn too_many_tokens_to_look_for_are_refused() {
    let mut made = bytes_vocabulary();
    for n in 0..3000 {
        made = made.token(&format!("{n:0>1000}"), CONTROL, 0.0);
    }
    says(&made.error(), "3002 special and added tokens");
}

#[test]
fn equal_tokens_are_no_error() {
    let mut made = bytes_vocabulary();
    made = made.token("he", NORMAL, 0.0).token("", NORMAL, 0.0);
    let tokenizer = made.load().unwrap();
    assert_eq!(tokenizer.encode("he").unwrap(), [made.id("he")]);
    assert_eq!(tokenizer.bytes(262), b"he");
    assert_eq!(tokenizer.vocab_size(), 264);
}

#[test]
fn texts_that_are_too_long_are_refused() {
    let tokenizer = bytes_vocabulary().load().unwrap();
    let text = "a".repeat(crate::tokenizer::limits::TEXT_BYTES + 1);
    says(&tokenizer.encode(&text).unwrap_err(), "encode it in parts");
}

#[test]
fn a_broken_json_is_an_error() {
    for json in [
        "",
        "{",
        "[]",
        "{}",
        "null",
        "\u{0}",
        r#"{"model": {"type": "BPE"}}"#,
    ] {
        let error = Tokenizer::from_json(json.as_bytes()).err().unwrap();
        says(&error, "cannot be read as a tokenizer.json");
    }
    let empty = r#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}"#;
    says(
        &Tokenizer::from_json(empty.as_bytes()).err().unwrap(),
        "no tokens",
    );
    let far = r#"{"added_tokens": [], "model": {"type": "BPE", "vocab": {"a": 4000000000}, "merges": []}}"#;
    says(
        &Tokenizer::from_json(far.as_bytes()).err().unwrap(),
        "4000000001 tokens",
    );
}

#[test]
fn a_table_of_normalisations_is_as_long_as_it_says() {
    let mut made = spm_vocabulary();
    made.model = "t5";
    made.precompiled_charsmap = vec![0xc8; 40];
    says(
        &made.error(),
        "too few for the 3368601800 that it announces",
    );
    // The same in base64.
    let json = format!(
        r#"{{"normalizer": {{"type": "Sequence", "normalizers": [{{"type": "Precompiled",
             "precompiled_charsmap": "{}"}}]}}, "model": {{"type": "BPE", "vocab": {{}}, "merges": []}}}}"#,
        "yMjI".repeat(10)
    );
    says(
        &Tokenizer::from_json(json.as_bytes()).err().unwrap(),
        "too few for the 3368601800 that it announces",
    );
}

#[test]
fn nesting_has_an_end() {
    let deep = format!(
        r#"{{"decoder": {}{}, "model": {{"type": "BPE", "vocab": {{}}, "merges": []}}}}"#,
        "[".repeat(120),
        "]".repeat(120)
    );
    says(
        &Tokenizer::from_json(deep.as_bytes()).err().unwrap(),
        "nested more than 64 deep",
    );
}
