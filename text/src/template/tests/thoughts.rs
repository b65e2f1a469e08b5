//! The rules of Lark for a model's thoughts: a document may stand behind thoughts as the template writes them.
use super::*;
use crate::grammar::{Grammar, Vocabulary};

/// A template that writes `open`, the thoughts, and `close`; the cue may have written `open` already.
fn thinking(open: &str, close: &str, cue: &str) -> Json {
    let source = format!(
        "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{% if m.reasoning_content %}}{open}\n\
         {{{{ m.reasoning_content }}}}\n{close}\n\n{{% endif %}}{{{{ m.content }}}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{cue}{{% endif %}}"
    );
    let formats: Json = serde_json::from_str(&load(&source).unwrap().formats()).unwrap();
    formats["reasoning"].clone()
}

/// Whether a document may stand behind `thoughts`, which become tokens as the template's text does.
fn takes(format: &Json, thoughts: &str) -> bool {
    let tokenizer = bytes(&NAMES);
    let inside = format["begins_inside"] == true;
    let rules = format[if inside { "rules_inside" } else { "rules" }]
        .as_str()
        .unwrap();
    let source = format!("start: thoughts document\n{rules}document: %json {{\"const\": 1}}\n");
    let grammar = Grammar::from_ebnf(&source).unwrap();
    let vocabulary = Vocabulary::new(tokenizer.clone(), &[SPECIAL + 1]).unwrap();
    let mut matcher = vocabulary.matcher(&grammar, 0).unwrap();
    let tokens = tokenizer.encode_template(&format!("{thoughts}1")).unwrap();
    matcher.accept(&tokens).is_ok() && matcher.is_complete()
}

#[test]
fn marks_are_those_of_the_template_whatever_they_are() {
    let format = thinking("<ponder>", "</ponder>", "");
    assert_eq!(format["open"], "<ponder>");
    assert_eq!(format["close"], "</ponder>");
    assert_eq!(format["close_token"], Json::Null);
    assert_eq!(format["begins_inside"], false);
    assert!(takes(&format, "<ponder>\nlet me \"see\"\n</ponder>\n\n"));
    assert!(takes(&format, "<ponder></ponder>"));
    for wrong in [
        "",
        "hm</ponder>",
        "<ponder>hm",
        "<ponder>a</ponder>b</ponder>",
    ] {
        assert!(!takes(&format, wrong), "{wrong}");
    }
}

#[test]
fn marks_that_are_special_tokens_are_not_their_texts() {
    let format = thinking("[INST]", "[/INST]", "");
    assert_eq!(format["close_token"], SPECIAL + 5);
    assert!(takes(&format, "[INST]\nhm</ponder>\n[/INST]\n\n"));
    assert!(!takes(&format, "hm[/INST]") && !takes(&format, "[INST]hm"));
}

#[test]
fn a_mark_may_have_special_tokens_and_text() {
    let format = thinking("[INST]think", "[/INST]", "");
    assert_eq!(format["open"], "[INST]think");
    assert!(takes(&format, "[INST]think hm[/INST]"));
    assert!(!takes(&format, "[INST] hm[/INST]"));
}

#[test]
fn the_cue_may_have_written_the_first_mark() {
    let format = thinking("<ponder>", "</ponder>", "<ponder>\n");
    assert_eq!(format["begins_inside"], true);
    assert!(takes(&format, "let me see</ponder>\n"));
    assert!(!takes(&format, "let me see"));
}

/// gpt-oss begins another message for the answer: `<|end|><|start|>assistant<|channel|>final<|message|>`.
#[test]
fn a_template_may_write_marks_between_thoughts_and_answer() {
    let format = thinking(
        "[INST]think",
        "<|im_end|>\n<|im_start|>assistant final[/INST]",
        "",
    );
    assert_eq!(format["open"], "[INST]think");
    assert_eq!(format["close"], "<|im_end|>");
    assert_eq!(
        format["close_token"],
        SPECIAL + 5,
        "the answer begins behind it"
    );
    let thoughts = "[INST]think hm<|im_end|>";
    let between = "<|im_start|>assistant final[/INST]";
    assert!(takes(&format, &format!("{thoughts}{between}")));
    assert!(takes(&format, &format!("{thoughts}\n{between}\n")));
    for wrong in [
        "",
        "[/INST]",
        "<|im_start|>assistant[/INST]",
        "<|im_start|>assistant final",
    ] {
        assert!(!takes(&format, &format!("{thoughts}{wrong}")), "{wrong}");
    }
}
