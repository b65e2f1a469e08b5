//! Our models against others: BPE against the crate's, SentencePiece against its definition.
use crate::tokenizer::model::{Bpe, BpeOptions, Model, Names, Spm};
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::Model as _;

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// A text of these characters. A vocabulary may know all of them except the last two.
    fn text(&mut self, len: usize) -> String {
        let letters = ['a', 'b', 'c', 'é', '▁', '日', 'x', '😀'];
        (0..len)
            .map(|_| letters[self.below(letters.len())])
            .collect()
    }
}

/// Tokens by id, and merges: random pairs of tokens that are there already.
fn random_bpe(chance: &mut Chance, merges: usize) -> (Vec<String>, Vec<(String, String)>) {
    let mut tokens: Vec<String> = vec!["<unk>".into()];
    tokens.extend((0..256).map(|byte| format!("<0x{byte:02X}>")));
    tokens.extend(["a", "b", "c", "é", "▁", "日"].map(String::from));
    let mut list = vec![];
    while list.len() < merges {
        let pick = |chance: &mut Chance| 257 + chance.below(tokens.len() - 257);
        let (left, right) = (tokens[pick(chance)].clone(), tokens[pick(chance)].clone());
        let joined = format!("{left}{right}");
        if joined.chars().count() > 8 || list.contains(&(left.clone(), right.clone())) {
            continue;
        }
        if !tokens.contains(&joined) {
            tokens.push(joined);
        }
        list.push((left, right));
    }
    (tokens, list)
}

fn names(tokens: &[String]) -> Names {
    Names::new(tokens.iter().map(String::as_str)).unwrap()
}

fn encode(model: &Model, text: &str) -> Vec<u32> {
    let mut ids = vec![];
    model.encoder().encode(text, &mut ids).unwrap();
    ids
}

#[test]
fn bpe_does_what_the_crate_does() {
    let mut chance = Chance(1);
    for round in 0..32 {
        let (tokens, merges) = random_bpe(&mut chance, 40);
        let [byte_fallback, unknown, fuse_unknown, whole_first, _] =
            std::array::from_fn(|bit| round >> bit & 1 == 1);
        let ids: Vocab = tokens.iter().cloned().zip(0..).collect();
        let mut crates = BPE::builder()
            .vocab_and_merges(ids, merges.clone())
            .byte_fallback(byte_fallback)
            .fuse_unk(fuse_unknown)
            .ignore_merges(whole_first);
        if unknown {
            crates = crates.unk_token("<unk>".into());
        }
        let crates = crates.build().unwrap();
        let options = BpeOptions {
            byte_fallback,
            unknown: unknown.then_some(0),
            fuse_unknown,
            whole_first,
        };
        let pairs = merges.iter().map(|(a, b)| Ok((a.as_str(), b.as_str())));
        let ours = Model::Bpe(Bpe::new(names(&tokens), pairs, options).unwrap());
        for _ in 0..200 {
            let len = chance.below(40);
            let text = chance.text(len);
            let want: Vec<u32> = crates
                .tokenize(&text)
                .unwrap()
                .iter()
                .map(|t| t.id)
                .collect();
            assert_eq!(encode(&ours, &text), want, "{text} in round {round}");
        }
    }
}

/// The definition: merge the best pair, look at all again.
fn spm_by_definition(tokens: &[String], scores: &[Option<f32>], text: &str) -> Vec<u32> {
    let token = |text: &str| {
        let id = tokens.iter().position(|t| t == text)?;
        Some((scores[id]?, id as u32))
    };
    let mut parts: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for at in 1..parts.len() {
            if let Some((score, _)) = token(&format!("{}{}", parts[at - 1], parts[at])) {
                if best.is_none_or(|b| score > b.0) {
                    best = Some((score, at));
                }
            }
        }
        let Some((_, at)) = best else { break };
        let right = parts.remove(at);
        parts[at - 1].push_str(&right);
    }
    let ids = |part: &String| match token(part) {
        Some((_, id)) => vec![id],
        None => part.bytes().map(|byte| 1 + u32::from(byte)).collect(),
    };
    parts.iter().flat_map(ids).collect()
}

#[test]
fn sentencepiece_does_what_it_is_defined_to_do() {
    let mut chance = Chance(2);
    for _ in 0..20 {
        let (tokens, _) = random_bpe(&mut chance, 40);
        // Few different scores, so that many are equal; some tokens are none of a text's.
        let score = |chance: &mut Chance| chance.below(12) as f32 / 2.0 - 4.0;
        let mut scores = vec![None; 257];
        for _ in 257..tokens.len() {
            scores.push((chance.below(8) > 0).then(|| score(&mut chance)));
        }
        let ours = Model::Spm(Spm::new(names(&tokens), &scores, Some(0)));
        for _ in 0..100 {
            let len = chance.below(30);
            let text = chance.text(len);
            let want = spm_by_definition(&tokens, &scores, &text);
            assert_eq!(encode(&ours, &text), want, "{text}");
        }
    }
}

#[test]
fn names_are_found_both_ways() {
    let tokens: Vec<String> = (0..5000).map(|n| format!("{n:x}")).collect();
    let names = names(&tokens);
    for (token, id) in tokens.iter().zip(0..) {
        assert_eq!(
            (names.id(token), names.get(id)),
            (Some(id), Some(token.as_str()))
        );
    }
    assert_eq!(
        (names.id("none"), names.id(""), names.get(5000)),
        (None, None, None)
    );
    let holes = Names::new(["", "a", "", "a"].into_iter()).unwrap();
    assert_eq!(
        (holes.id("a"), holes.get(0), holes.get(3)),
        (Some(1), None, Some("a"))
    );
}
