//! A real vocabulary, where one is at hand.
use super::*;
use std::path::PathBuf;

/// The tokenizer of a model, or one that the comparison of tokenizers has fetched.
const FILES: [&str; 2] = [
    "models/smollm2-135m-instruct/tokenizer.json",
    "compat/tokenizers/lenml-qwen2_5-3.7.2/tokenizer.json",
];

pub(super) fn vocabulary() -> Option<(Arc<Tokenizer>, Vocabulary)> {
    FILES.iter().find_map(|file| load(file, "<|im_end|>"))
}

/// The vocabulary of a file below the cache, if it is there. `stop` ends a text.
pub(super) fn load(file: &str, stop: &str) -> Option<(Arc<Tokenizer>, Vocabulary)> {
    let cache = std::env::var_os("PIE_CACHE").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cache = cache.or(home.map(|home| home.join(".cache/pie")))?;
    let file = std::fs::read(cache.join(file)).ok()?;
    let tokenizer = Arc::new(Tokenizer::from_json(&file).unwrap());
    let stop = tokenizer.token_to_id(stop)?;
    let vocabulary = Vocabulary::new(tokenizer.clone(), &[stop]).unwrap();
    Some((tokenizer, vocabulary))
}

#[test]
fn a_real_vocabulary_writes_documents() {
    let Some((tokenizer, vocabulary)) = vocabulary() else {
        return; // the model is not there; `make setup` brings it
    };
    let schema = r#"{"type": "object", "properties": {"a_rather_long_name": {"type": "integer"},
        "kind": {"enum": ["red", "green"]}}, "required": ["a_rather_long_name", "kind"],
        "additionalProperties": false}"#;
    let grammar = Grammar::from_json_schema(schema).unwrap();
    let mut matcher = vocabulary.matcher(&grammar, 0).unwrap();
    let document = "{\"a_rather_long_name\": 12, \"kind\": \"green\"}";
    for token in tokenizer.encode_plain(document).unwrap() {
        matcher.accept(&[token]).unwrap();
    }
    assert!(matcher.is_terminated());
    assert!(matcher
        .mask()
        .unwrap()
        .allows(tokenizer.token_to_id("<|im_end|>").unwrap()));

    // Following the lowest allowed token always leads to a document; what is forced is what the masks allow.
    matcher.reset();
    let (mut text, mut forced) = (Vec::new(), 0);
    while !matcher.is_terminated() && matcher.taken() < 200 {
        let mask = matcher.mask().unwrap();
        let must = matcher.forced_tokens();
        let lowest = (0..tokenizer.vocab_size())
            .find(|token| mask.allows(*token))
            .unwrap();
        if let Some(first) = must.first() {
            assert_eq!((*first, mask.count()), (lowest, 1));
            forced += 1;
        }
        text.extend_from_slice(tokenizer.bytes(lowest));
        matcher.accept(&[lowest]).unwrap();
    }
    assert!(forced > 3, "{}", String::from_utf8_lossy(&text));
}
