//! Forced tokens are those of the tokenizer: documents are encoded as a whole, and followed token by token.
use super::*;
use serde_json::{json, Map, Value as Json};

/// Parts of names and values whose tokens depend on what stands beside them.
const PARTS: &str =
    "the|ing| and|  |   |\n|é|日|1|12|123|'s|'|\"|\\|/|//|http|://|_|__|-|--|.|...|a|abc|un|happy|\
    ness|Ha|HA|x|=|\u{1F35E}| é|()|)|;|tion";

fn word(random: &mut Random) -> String {
    let parts: Vec<&str> = PARTS.split('|').collect();
    let count = 1 + random.below(6);
    (0..count).filter_map(|_| random.one_of(&parts)).collect()
}

/// A schema, and a document that it allows.
fn value(random: &mut Random) -> (Json, Json) {
    match random.below(8) {
        0..=3 => {
            let base = word(random);
            let mut all: Vec<String> = (0..3).map(|_| base.clone() + &word(random)).collect();
            all.push(base);
            let chosen = all[random.below(all.len())].clone();
            (json!({"enum": all}), json!(chosen))
        }
        4 => {
            let text = word(random);
            (json!({"const": text}), json!(text))
        }
        5 => {
            let number = random.below(1_000_000) as i64 - 500_000;
            (json!({"type": "integer"}), json!(number))
        }
        6 => {
            let items = [word(random), word(random)];
            let chosen = [items[0].clone(), items[random.below(2)].clone()];
            let schema = json!({"type": "array", "items": {"enum": items}});
            (schema, json!(chosen))
        }
        _ => (json!({"type": "string"}), json!(word(random))),
    }
}

fn object(random: &mut Random) -> (Json, Json) {
    let (mut properties, mut document) = (Map::new(), Map::new());
    for _ in 0..1 + random.below(4) {
        let (schema, chosen) = value(random);
        let name = word(random);
        properties.insert(name.clone(), schema);
        document.insert(name, chosen);
    }
    let required: Vec<&String> = properties.keys().collect();
    let schema = json!({"type": "object", "required": required, "additionalProperties": false,
        "properties": properties});
    (schema, Json::Object(document))
}

fn written(document: &Json, random: &mut Random) -> String {
    match random.below(2) {
        0 => document.to_string(),
        _ => serde_json::to_string_pretty(document).unwrap(),
    }
}

/// Follows the text, taking what is forced. Returns how many tokens were.
fn follow(vocabulary: &Vocabulary, grammar: &Grammar, text: &str) -> usize {
    let expected = vocabulary.encode(text);
    let mut matcher = vocabulary.matcher(grammar, 0).unwrap();
    let (mut taken, mut count) = (0, 0);
    while taken < expected.len() {
        let forced = matcher.forced_tokens();
        let rest = &expected[taken..];
        assert!(
            rest.starts_with(&forced),
            "{text:?} at {taken}: forced are {forced:?}, but the tokenizer writes {rest:?}"
        );
        let next = match forced.is_empty() {
            true => &rest[..1],
            false => &forced[..],
        };
        matcher
            .accept(next)
            .unwrap_or_else(|e| panic!("{text:?}: {e}"));
        taken += next.len();
        count += forced.len();
    }
    assert!(matcher.is_complete(), "{text:?}");
    count
}

#[test]
fn forced_tokens_are_those_of_the_tokenizer() {
    let cases = [
        ("models/smollm2-135m-instruct/tokenizer.json", "<|im_end|>"),
        (
            "compat/tokenizers/lenml-qwen2_5-3.7.2/tokenizer.json",
            "<|im_end|>",
        ),
        (
            "compat/tokenizers/lenml-gpt2-3.7.2/tokenizer.json",
            "<|endoftext|>",
        ),
        (
            "compat/tokenizers/lenml-llama2-3.7.2/tokenizer.json",
            "</s>",
        ),
    ];
    for (file, stop) in cases {
        let Some((_, vocabulary)) = model::load(file, stop) else {
            continue; // the tokenizer is not there; the comparison of tokenizers fetches it
        };
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let (mut texts, mut forced) = (0, 0);
        for _ in 0..60 {
            let (schema, document) = object(&mut random);
            let grammar = Grammar::from_json_schema(&schema.to_string()).unwrap();
            for _ in 0..2 {
                let text = written(&document, &mut random);
                forced += follow(&vocabulary, &grammar, &text);
                texts += 1;
            }
        }
        assert!(forced > 3 * texts, "{file}: {forced} tokens are forced");
    }
}

#[test]
fn a_token_that_another_may_replace_is_not_forced() {
    let Some((tokenizer, vocabulary)) = model::vocabulary() else {
        return; // the model is not there; `make setup` brings it
    };
    let schema = r#"{"type": "object", "properties": {"ss123/)": {"type": "integer"}},
        "required": ["ss123/)"], "additionalProperties": false}"#;
    let grammar = Grammar::from_json_schema(schema).unwrap();
    for text in ["{\"ss123/)\":1}", "{\"ss123/)\": 1}", "{\"ss123/)\":\n1}"] {
        follow(&vocabulary, &grammar, text);
    }
    // A text that nothing follows is forced to its end.
    let grammar = Grammar::from_regex("x and (so on|no more), ever").unwrap();
    let mut matcher = vocabulary.matcher(&grammar, 0).unwrap();
    matcher.accept(&vocabulary.encode("x and so")).unwrap();
    let rest = matcher.forced_tokens();
    let rest: Vec<u8> = rest
        .iter()
        .flat_map(|token| tokenizer.bytes(*token).to_vec())
        .collect();
    assert_eq!(rest, b" on, ever");
}

#[test]
fn a_long_text_is_forced_in_parts() {
    let text = "0123456789 é".repeat(600);
    let grammar = Grammar::from_ebnf(&format!("start: \"{text}\"")).unwrap();
    let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
    let expected = tokens(&text);
    let mut parts = 0;
    while matcher.taken() < expected.len() {
        let forced = matcher.forced_tokens();
        assert!(!forced.is_empty() && forced.len() <= limits::FORCED_BYTES);
        assert!(expected[matcher.taken()..].starts_with(&forced));
        matcher.accept(&forced).unwrap();
        parts += 1;
    }
    assert!(parts > 2 && matcher.is_terminated());
}

#[test]
fn special_tokens_are_forced_with_the_text_around_them() {
    let grammar = Grammar::from_ebnf("start: \"a\" <|call|> \"bc\" /d+/").unwrap();
    let mut matcher = BYTES.matcher(&grammar, 0).unwrap();
    let forced = matcher.forced_tokens();
    assert_eq!(forced, [97, 257, 98, 99, 100]);
    matcher.accept(&forced).unwrap();
    assert!(matcher.is_complete());
}
