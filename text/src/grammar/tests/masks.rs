//! Masks are those that the crate computes by itself, whatever the lexers have kept of earlier texts. Where tokens are
//! forced, a mask allows the first of them only.
use super::*;
use llguidance::Matcher as Plain;

/// One text, followed by a matcher and by a parser of the crate with a lexer of its own.
struct Pair {
    ours: Matcher,
    plain: Plain,
    written: Vec<u32>,
}

impl Pair {
    fn fork(&self) -> Pair {
        Pair {
            ours: self.ours.fork(),
            plain: self.plain.deep_clone(),
            written: self.written.clone(),
        }
    }

    /// Compares the masks, then takes a token that they allow. `joints` are tokens with characters that end lexemes.
    /// False: the text has ended.
    fn step(&mut self, joints: &[u32], random: &mut Random, what: &str) -> bool {
        if random.below(2) == 0 {
            self.ours.forced_tokens(); // the mask is found with them
        }
        let mask = self.ours.mask().unwrap_or_else(|e| panic!("{what}: {e}"));
        let plain = self.plain.compute_mask_or_eos().unwrap();
        let forced = self.ours.forced_tokens();
        let differs = match forced.first() {
            Some(first) => !mask.allows(*first) || mask.count() != 1 || !plain.is_allowed(*first),
            None => mask.bits() != plain.as_slice(),
        };
        assert!(!differs, "{what}: another mask after {:?}", self.written);
        if self.ours.is_terminated() {
            return false;
        }
        let allowed: Vec<u32> = match forced.first() {
            Some(first) => vec![*first],
            None => plain.iter().collect(),
        };
        let ending: Vec<u32> = joints
            .iter()
            .copied()
            .filter(|token| mask.allows(*token))
            .collect();
        let chosen = match random.below(3) {
            0 => random.one_of(&allowed),
            _ => random.one_of(&ending).or_else(|| random.one_of(&allowed)),
        };
        let token = chosen.expect("a text that has not ended can go on");
        self.ours.accept(&[token]).unwrap();
        self.plain.consume_token(token).unwrap();
        self.written.push(token);
        true
    }

    fn go_back(&mut self, random: &mut Random) {
        let count = random.below(self.written.len() + 1);
        self.ours.rollback(count).unwrap();
        self.plain.rollback(count).unwrap();
        self.plain.invalidate_bias_cache();
        self.written.truncate(self.written.len() - count);
    }
}

/// Writes texts at random, several at a time, so that they share lexers.
fn compare(vocabulary: &Vocabulary, tokenizer: &Tokenizer, grammars: &[Grammar], steps: usize) {
    let ends_lexemes = |token: &u32| {
        let bytes = tokenizer.bytes(*token);
        bytes.iter().any(|byte| b"\"{}[],: /.-0\\\n".contains(byte))
    };
    let joints: Vec<u32> = (0..tokenizer.vocab_size()).filter(ends_lexemes).collect();
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for grammar in grammars {
        let what = format!("{:?} {}", grammar.kind(), grammar.text());
        let plain = vocabulary.plain(grammar).unwrap();
        let start = || Pair {
            ours: vocabulary.matcher(grammar, 0).unwrap(),
            plain: plain.deep_clone(),
            written: Vec::new(),
        };
        let mut pairs: Vec<Pair> = (0..limits::LEXERS + 2).map(|_| start()).collect();
        for _ in 0..steps {
            let at = random.below(pairs.len());
            match random.below(12) {
                0 => pairs[at] = start(),
                1 => pairs[at].go_back(&mut random),
                2 => pairs[at] = pairs[(at + 1) % pairs.len()].fork(),
                _ if pairs[at].step(&joints, &mut random, &what) => {}
                _ => pairs[at] = start(),
            }
        }
    }
}

fn grammars() -> Vec<Grammar> {
    let mut grammars = schemas::accepted();
    grammars.push(Grammar::json());
    for regex in [
        "(https?://)?[a-z0-9]+(\\.[a-z0-9]+)+(/[a-zA-Z0-9_-]*)*",
        "[A-Z][a-z]{2,12}( [A-Z][a-z]*){0,3}[.!?]",
        "(\\d{4}-\\d{2}-\\d{2}|[a-f0-9]{8})(, |;)?.*",
        "(a|b)*abb(.|\\n)*",
        ".{3,40}é+",
        "(ab)*(c(ab)*)?",
    ] {
        grammars.push(Grammar::from_regex(regex).unwrap());
    }
    for ebnf in [
        "start: sum\nsum: product ((\"+\" | \"-\") product)*\nproduct: NUMBER | \"(\" sum \")\" | NAME\n\
         NUMBER: /[0-9]+(\\.[0-9]+)?/\nNAME: /[a-z_][a-z0-9_]*/\n%ignore /[ \\t]+/",
        "start: \"[\" AB \"]\" (AB \";\")* AB\nAB: /(ab)*/",
        "start: AB (\"c\" AB)*\nAB: /(ab)+/",
        "start: line+\nline: KEY \"=\" VALUE \"\\n\"\nKEY: /[a-zA-Z.]+/\nVALUE: /[^\\n]*/",
        "start: (<[257]> thoughts)? document\nthoughts: /(?s:.*)/ <[257]> SPACE\nSPACE: /[ \\n]{0,2}/\n\
         document: %json {\"properties\": {\"ab\": {\"type\": \"integer\"}}, \"type\": \"object\"}",
        "start: word (<[257]> word | \",\" <[257]>? other)*\nword: /[a-c]+/\nother: /[a-c]+d/",
        // Tokens of text that are named by their ids.
        "start: word (<[98]> word)* <[257]>?\nword: /[a-c]{1,3}/",
        "start: word <[97-99]> other\nword: /[a-c]{1,3}/\nother: /[b-d]{1,3}/",
        "start: \"if\" NAME \"then\" (NAME | \"if\") <|im_start|>? \"end\"\nNAME: / [a-z]+ /",
        "root ::= item (\", \" item)*\nitem ::= [a-z]+ | \"[\" root \"]\" | \"\\\"\" [^\"\\n]* \"\\\"\"",
    ] {
        grammars.push(Grammar::from_ebnf(ebnf).unwrap());
    }
    grammars
}

#[test]
fn a_mask_behind_a_rollback_is_not_that_of_another_text() {
    let grammar = Grammar::from_ebnf("start: \"(\" WORD \")\" | \"[\" WORD \"]\"\nWORD: /[a-z]+/");
    let mut matcher = BYTES.matcher(&grammar.unwrap(), 0).unwrap();
    for (text, end, other) in [("(a", ')', ']'), ("[a", ']', ')'), ("(a", ')', ']')] {
        matcher.accept(&tokens(text)).unwrap();
        let mask = matcher.mask().unwrap();
        assert!(
            mask.allows(end as u32) && !mask.allows(other as u32),
            "{text}"
        );
        matcher.rollback(2).unwrap();
    }
}

#[test]
fn masks_are_those_of_the_crate() {
    let tokenizer = Tokenizer::from_bytes(&["<|im_end|>", "<|im_start|>"]).unwrap();
    let tokenizer = Arc::new(tokenizer);
    let vocabulary = Vocabulary::new(tokenizer.clone(), &[256]).unwrap();
    compare(&vocabulary, &tokenizer, &grammars(), 200);
}

#[test]
fn masks_are_those_of_the_crate_on_a_real_vocabulary() {
    let Some((tokenizer, vocabulary)) = model::vocabulary() else {
        return; // the model is not there; `make setup` brings it
    };
    compare(&vocabulary, &tokenizer, &grammars(), 100);
}
