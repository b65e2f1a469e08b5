//! Our own pipeline gives the same results as the crate.
use crate::tokenizer::convert::splits;
use crate::tokenizer::known_splits;
use crate::tokenizer::pipeline::{AddedTokens, Pipeline};
use serde_json::json;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::AddedToken;

const TEXTS: &[&str] = &[
    "",
    " ",
    "It's 12345 wörds,  日本語かな 한국어\t\r\n\n   x = foo(bar);//½ ÀÉ e\u{301} 😀 ",
    "<end>a <end>  b<end><end>\n <tool>c<tool_call>d   <strip>   e<both> <both>\u{3000}f",
    "   <strip>\n\n<both>\n<strip><end> ",
    "a  b   c    1 22 333 4444 ٣٤ Ⅷ²x1y2",
    "\u{1112}\u{1161}\u{11ab} \u{212b} a\u{328}\u{301} \u{301}\u{327}",
    "CamelCase HTTPServer don't DON'T I'LL 'tis ''x'' !?.. --- // \\ \n\n\n \n x",
];

fn added() -> AddedTokens {
    let token = |text: &str, special| AddedToken::from(text, special).normalized(false);
    AddedTokens::new(vec![
        (0, token("<end>", true)),
        (1, token("<tool>", false)),
        (2, token("<tool_call>", false)),
        (3, token("<strip>", true).rstrip(true)),
        (4, token("<both>", false).lstrip(true).rstrip(true)),
        (5, token("<end>", true)),
    ])
    .unwrap()
}

/// Also fails if our own pipeline does not support the tokenizer.
fn same(
    added: &AddedTokens,
    normalizer: Option<NormalizerWrapper>,
    cut: Option<PreTokenizerWrapper>,
) {
    let direct = Pipeline::new(added, normalizer.clone(), cut.clone()).unwrap();
    assert!(
        matches!(direct, Pipeline::Direct(_)),
        "{normalizer:?} {cut:?}"
    );
    let by_crate = Pipeline::new_by_crate(added, normalizer, cut);
    for text in TEXTS {
        for plain in [false, true] {
            assert_eq!(
                direct.parts(text, plain),
                by_crate.parts(text, plain),
                "{text:?}"
            );
        }
    }
}

#[test]
fn of_every_named_split() {
    for name in known_splits().split(", ").filter(|&name| name != "falcon") {
        same(
            &added(),
            None,
            splits::find(name).unwrap().pre_tokenizer().unwrap(),
        );
    }
}

#[test]
fn of_other_pre_tokenizers() {
    let split = |pattern: serde_json::Value, behavior: &str, invert: bool| json!({"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert});
    let words = json!({"Regex": r"\w+"});
    for value in [
        json!({"type": "Digits", "individual_digits": false}),
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}),
        split(words.clone(), "Isolated", false),
        split(words.clone(), "Isolated", true),
        split(words.clone(), "Removed", true),
        split(json!({"String": " "}), "MergedWithPrevious", false),
        split(json!({"String": "."}), "MergedWithPrevious", false),
        json!({"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": true}, split(words, "MergedWithPrevious", false)]}),
    ] {
        let cut: PreTokenizerWrapper = serde_json::from_value(value).unwrap();
        same(&added(), None, Some(cut));
    }
    same(&added(), None, None);
}

#[test]
fn of_normalizers() {
    for value in [
        json!({"type": "NFC"}),
        json!({"type": "Prepend", "prepend": "▁"}),
        json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"}),
        json!({"type": "Sequence", "normalizers": []}),
        json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "NFC"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}),
    ] {
        same(&added(), Some(serde_json::from_value(value).unwrap()), None);
    }
}

#[test]
fn of_added_tokens_that_wait_for_the_normalizer() {
    let tokens = vec![
        (0, AddedToken::from("<end>", true)),
        (1, AddedToken::from("<tool>", false)),
        (2, AddedToken::from("nd><to", false)),
    ];
    same(&AddedTokens::new(tokens).unwrap(), None, None);
}

#[test]
fn long_texts_are_composed_in_parts() {
    let nfc: NormalizerWrapper = serde_json::from_value(json!({"type": "NFC"})).unwrap();
    let direct = Pipeline::new(&added(), Some(nfc.clone()), None).unwrap();
    let by_crate = Pipeline::new_by_crate(&added(), Some(nfc), None);
    for part in [
        "e\u{301}",
        "a\u{328}\u{301} ",
        "\u{1112}\u{1161}\u{11ab}",
        "か\u{3099}",
        "\u{301}",
    ] {
        let text = part.repeat(100_000 / part.len());
        assert_eq!(
            direct.parts(&text, false),
            by_crate.parts(&text, false),
            "{part}"
        );
    }
}

#[test]
fn what_only_the_crate_knows_is_left_to_it() {
    let by_crate = |normalizer: serde_json::Value, cut: serde_json::Value| {
        let normalizer = serde_json::from_value(normalizer).unwrap();
        let made =
            Pipeline::new(&added(), normalizer, serde_json::from_value(cut).unwrap()).unwrap();
        matches!(made, Pipeline::ByCrate(_))
    };
    let none = || serde_json::Value::Null;
    assert!(by_crate(json!({"type": "NFKC"}), none()));
    assert!(by_crate(json!({"type": "Lowercase"}), none()));
    assert!(by_crate(none(), json!({"type": "Whitespace"})));
    assert!(by_crate(
        none(),
        json!({"type": "Sequence", "pretokenizers": [
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        {"type": "Digits", "individual_digits": true}]})
    ));
    assert!(!by_crate(none(), none()));
}
