use super::*;

#[test]
fn bytes_are_merged_in_the_order_of_the_list() {
    let made = bytes_vocabulary();
    let tokenizer = made.load().unwrap();
    let id = |token: &str| made.id(token);
    let expect = |text: &str, tokens: &[&str]| {
        let want: Vec<u32> = tokens.iter().map(|t| id(t)).collect();
        assert_eq!(tokenizer.encode(text).unwrap(), want, "{text}");
        assert_eq!(tokenizer.decode(&want).unwrap(), text);
    };
    expect("hell", &["hell"]);
    expect("hello hell", &["hell", "o", "Ġhell"]);
    expect("hello  hell", &["hell", "o", "Ġ", "Ġhell"]); // the last of many spaces belongs to the word
    expect("shell", &["s", "hell"]);
    expect("", &[]);
    expect("é\n", &["Ã", "©", "Ċ"]);
}

#[test]
fn every_byte_comes_back() {
    let tokenizer = bytes_vocabulary().load().unwrap();
    for id in 0..=255u32 {
        assert_eq!(tokenizer.bytes(id), [id as u8], "token {id}");
    }
    assert_eq!(tokenizer.bytes(259), b" hell");
    assert_eq!(
        tokenizer.decode(&[0xff, 104, 0xe2, 0x82]).unwrap(),
        "\u{fffd}h\u{fffd}"
    );
}

#[test]
fn special_tokens_are_tokens_in_encode_and_text_in_encode_plain() {
    let made = bytes_vocabulary();
    let tokenizer = made.load().unwrap();
    let (end, tool) = (made.id("<|end|>"), made.id("<tool>"));
    assert_eq!(tokenizer.encode("he<|end|>").unwrap(), [made.id("he"), end]);
    let plain = tokenizer.encode_plain("he<|end|>").unwrap();
    assert!(!plain.contains(&end));
    assert_eq!(tokenizer.decode(&plain).unwrap(), "he<|end|>");
    // A token that a user defined is no control token: it is found in both forms of encoding, and it is text.
    assert_eq!(tokenizer.encode_plain("<tool>").unwrap(), [tool]);
    assert_eq!(tokenizer.bytes(tool), b"<tool>");
    assert_eq!(tokenizer.decode(&[end, tool, end]).unwrap(), "<tool>");
    assert_eq!(tokenizer.specials(), [(end, "<|end|>".to_string())]);
    assert!(tokenizer.is_special(end) && !tokenizer.is_special(tool));
    assert_eq!(tokenizer.token_to_id("<|end|>"), Some(end));
    assert_eq!(tokenizer.id_to_token(end).as_deref(), Some("<|end|>"));
}

#[test]
fn named_tokens_are_special_whatever_their_type() {
    let mut made = bytes_vocabulary();
    made.types = vec![];
    made.special_ids = vec![made.id("<|end|>")];
    let tokenizer = made.load().unwrap();
    let end = made.id("<|end|>");
    assert!(tokenizer.is_special(end));
    assert_eq!(tokenizer.encode("<|end|>").unwrap(), [end]);
}

#[test]
fn every_known_split_keeps_the_text() {
    let text = "It's 12345 wörds,  日本語かな 한국어\t\r\n\n   x = foo(bar);//½ ÀÉ e\u{301} 😀 ";
    for name in crate::tokenizer::known_splits().split(", ") {
        let mut made = bytes_vocabulary();
        made.pre = Box::leak(name.to_string().into_boxed_str());
        let tokenizer = made.load().unwrap_or_else(|e| panic!("{name}: {e}"));
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.encode_plain(text).unwrap(), ids);
        if name == "gemma4" {
            continue; // not written in bytes
        }
        let back = tokenizer.decode(&ids).unwrap();
        assert_eq!(back.replace('é', "e\u{301}"), text, "{name}");
        assert!(!tokenizer.split_regex().is_empty(), "{name}");
    }
}

#[test]
fn sentencepiece_merges_by_score_and_falls_back_to_bytes() {
    let made = spm_vocabulary();
    let tokenizer = made.load().unwrap();
    let expect = |text: &str, tokens: &[&str]| {
        let want: Vec<u32> = tokens.iter().map(|t| made.id(t)).collect();
        assert_eq!(tokenizer.encode(text).unwrap(), want, "{text}");
        assert_eq!(tokenizer.decode(&want).unwrap(), text);
        assert_eq!(streamed(&tokenizer, &want), text.as_bytes());
    };
    expect("the", &["▁the"]);
    expect("then", &["▁the", "n"]); // "he" has a higher score than "en"
    expect(" the", &["▁", "▁the"]);
    expect("  t", &["▁▁", "▁t"]);
    expect("té", &["▁t", "é"]);
    expect("tx\n", &["▁t", "<0x78>", "<0x0A>"]);
    expect("t€", &["▁t", "<0xE2>", "<0x82>", "<0xAC>"]);
    assert_eq!(tokenizer.split_regex(), "");
}

#[test]
fn a_space_goes_in_front_of_what_follows_a_special_token() {
    let made = spm_vocabulary();
    let tokenizer = made.load().unwrap();
    let ids = tokenizer.encode("<s>the</s>the").unwrap();
    let want = ["<s>", "▁the", "</s>", "▁the"].map(|t| made.id(t));
    assert_eq!(ids, want);
    assert_eq!(tokenizer.decode(&ids).unwrap(), "the the");
    assert_eq!(streamed(&tokenizer, &ids), b"the the");
}

#[test]
fn phi3_drops_the_space_behind_its_special_tokens() {
    let mut made = spm_vocabulary().token("<|end|>", CONTROL, 0.0);
    made.architecture = "phi3";
    let tokenizer = made.load().unwrap();
    let ids = |tokens: &[&str]| tokens.iter().map(|t| made.id(t)).collect::<Vec<_>>();
    assert_eq!(
        tokenizer.encode("<|end|>\n the").unwrap(),
        ids(&["<|end|>", "▁the"])
    );
    assert_eq!(
        tokenizer.encode("<s> the").unwrap(),
        ids(&["<s>", "▁", "▁the"])
    );
}

#[test]
fn without_a_space_prefix_nothing_is_added_and_nothing_dropped() {
    let mut made = spm_vocabulary();
    made.add_space_prefix = Some(false);
    let tokenizer = made.load().unwrap();
    assert!(!tokenizer.drops_leading_space());
    let ids = tokenizer.encode(" the").unwrap();
    assert_eq!(ids, [made.id("▁the")]);
    assert_eq!(tokenizer.decode(&ids).unwrap(), " the");
}

#[test]
fn control_tokens_are_never_merged_from_text() {
    let mut made = spm_vocabulary();
    made = made.token("<", NORMAL, -12.0).token("s>", NORMAL, -13.0);
    made = made.token("s", NORMAL, -14.0).token(">", NORMAL, -15.0);
    let tokenizer = made.load().unwrap();
    let ids = tokenizer.encode_plain("<s>").unwrap();
    assert!(!ids.contains(&made.id("<s>")), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids).unwrap(), "<s>");
}

#[test]
fn wordpiece_and_unigram_load() {
    let mut made = Made {
        model: "bert",
        ..Made::default()
    };
    for (token, kind) in [("[UNK]", UNKNOWN), ("[CLS]", CONTROL), ("▁un", NORMAL)] {
        made = made.token(token, kind, 0.0);
    }
    made = made.token("able", NORMAL, 0.0).token("▁.", NORMAL, 0.0);
    let tokenizer = made.load().unwrap();
    assert_eq!(tokenizer.encode("Unable un.").unwrap(), [2, 3, 2, 4]);
    assert_eq!(tokenizer.decode(&[2, 3, 2, 4]).unwrap(), "unable un.");
    assert_eq!(streamed(&tokenizer, &[2, 3, 2, 4]), b"unable un.");

    let mut made = Made {
        model: "t5",
        ..Made::default()
    };
    made = made.token("<unk>", UNKNOWN, 0.0).token("▁", NORMAL, -3.0);
    made = made.token("▁he", NORMAL, -1.0).token("l", NORMAL, -4.0);
    made = made.token("lo", NORMAL, -2.0).token("o", NORMAL, -4.0);
    let tokenizer = made.load().unwrap();
    let ids = tokenizer.encode("hello he").unwrap();
    assert_eq!(ids, ["▁he", "l", "lo", "▁he"].map(|t| made.id(t)));
    assert_eq!(tokenizer.decode(&ids).unwrap(), "hello he");
}

#[test]
fn long_texts_without_a_break_are_encoded() {
    let gpt = bytes_vocabulary().load().unwrap();
    let spm = spm_vocabulary().load().unwrap();
    for piece in ["a", " ", "hell", "\n", "日", "A1"] {
        let text = piece.repeat((1 << 18) / piece.len());
        for tokenizer in [&gpt, &spm] {
            let ids = tokenizer.encode(&text).unwrap();
            assert_eq!(tokenizer.decode(&ids).unwrap(), text);
        }
    }
}
