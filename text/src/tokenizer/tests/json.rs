use super::*;
use serde_json::{json, Value};

/// Words by spaces, an end token that a post-processor would add, truncation to one token, padding to ten.
fn noisy() -> Value {
    json!({
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 10}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "<pad>"},
        "added_tokens": [
            {"id": 7, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": true},
            {"id": 8, "content": "<think>", "single_word": false, "lstrip": false, "rstrip": false,
             "normalized": false, "special": false}],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<end>": {"id": "<end>", "ids": [7], "tokens": ["<end>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": 0.9, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3, "Ġab": 5}, "merges": ["a b", "Ġ ab"]}
    })
}

fn load(value: &Value) -> Result<Tokenizer, String> {
    Tokenizer::from_json(value.to_string().as_bytes())
}

#[test]
fn nothing_is_added_cut_or_left_to_chance() {
    let tokenizer = load(&noisy()).unwrap();
    for _ in 0..20 {
        assert_eq!(tokenizer.encode("ab ab").unwrap(), [3, 5]);
    }
    assert_eq!(tokenizer.encode("ab<end>").unwrap(), [3, 7]);
    assert_eq!(tokenizer.encode("<think>ab").unwrap(), [8, 3]);
    assert_eq!(tokenizer.encode_plain("<think>ab").unwrap(), [8, 3]);
    assert_eq!(tokenizer.decode(&[8, 3, 7, 5]).unwrap(), "<think>ab ab");
}

#[test]
fn ids_without_a_token_have_no_text() {
    let tokenizer = load(&noisy()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 9);
    assert_eq!(tokenizer.bytes(4), b"");
    assert_eq!(tokenizer.decode(&[4, 6]).unwrap(), "");
    assert!(tokenizer
        .decode(&[9])
        .unwrap_err()
        .contains("outside the vocabulary of 9"));
    let padded = load(&noisy()).unwrap().padded(16).unwrap();
    assert_eq!(padded.vocab_size(), 16);
    assert_eq!(padded.decode(&[15, 3]).unwrap(), "ab");
    assert!(load(&noisy()).unwrap().padded(u32::MAX).is_err());
}

#[test]
fn the_split_regex_is_that_of_the_pre_tokenizer() {
    let mut value = noisy();
    assert!(load(&value).unwrap().split_regex().starts_with("'s|'t|'re"));
    value["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": true},
        {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": false},
        {"type": "Split", "pattern": {"String": "a.b"}, "behavior": "Isolated", "invert": false},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
    assert_eq!(load(&value).unwrap().split_regex(), r"\p{N}|x+|a\.b");
    value["pre_tokenizer"] = Value::Null;
    assert_eq!(load(&value).unwrap().split_regex(), "");
}

#[test]
fn decoders_are_understood_token_by_token() {
    let expect = |decoder: Value, vocab: Value, ids: &[u32], text: &str| {
        let mut value = noisy();
        value["decoder"] = decoder;
        value["model"]["vocab"] = vocab;
        value["model"]["merges"] = json!([]);
        value["added_tokens"] = json!([]);
        value["post_processor"] = Value::Null;
        let tokenizer = load(&value).unwrap();
        assert_eq!(tokenizer.decode(ids).unwrap(), text);
        assert_eq!(streamed(&tokenizer, ids), text.as_bytes());
    };
    let words = json!({"▁a": 0, "▁b": 1, "c": 2, "<0xE2>": 3, "<0x82>": 4, "<0xAC>": 5, "##d": 6, "e</w>": 7});
    let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let fuse = json!({"type": "Fuse"});
    let fallback = json!({"type": "ByteFallback"});
    let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
    let sequence = |all: &[&Value]| json!({"type": "Sequence", "decoders": all});
    let llama = sequence(&[&replace, &fallback, &fuse, &strip]);
    expect(llama, words.clone(), &[0, 2, 1, 3, 4, 5], "ac b€");
    let gemma = sequence(&[&replace, &fallback, &fuse]);
    expect(gemma, words.clone(), &[0, 2, 1], " ac b");
    let meta =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    expect(meta, words.clone(), &[0, 1, 2], "a bc");
    let bert = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
    expect(bert, words.clone(), &[2, 6, 2], "cd c");
    let suffix = json!({"type": "BPEDecoder", "suffix": "</w>"});
    expect(suffix, words.clone(), &[2, 7, 2], "ce c");
    expect(Value::Null, words, &[2, 2], "c c");
}
