//! Options of templates: what they change, and which are refused.
use super::*;

/// Writes an effort at the beginning, as gpt-oss does, and closes or opens thoughts in the cue, as Qwen3 and DeepSeek do.
const THINKING: &str = "{{ bos_token }}{% if effort is defined %}effort: {{ effort }}\n{% endif %}\
    {% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n\
    {% if thinking is defined %}{% if thinking %}<think>{% else %}<think></think>{% endif %}{% endif %}{% endif %}\
    {% if level is defined and level > 3 %}{{ raise_exception('levels end at 3') }}{% endif %}";

fn set(chat: &ChatTemplate, options: &Options, name: &str, value: &str) -> Result<Options, String> {
    chat.set_option(options, name, Some(value))
}

fn none() -> Options {
    Options::new()
}

fn told(chat: &ChatTemplate, options: &Options, before: &[TurnKind], turns: &[Turn]) -> String {
    shown(&chat.extend(before, turns, options).unwrap())
}

#[test]
fn an_option_changes_the_cue_and_where_thoughts_begin() {
    let chat = load(THINKING).unwrap();
    let turns = [user("u"), Turn::Cue];
    let plain = told(&chat, &none(), &[], &turns);
    let off = set(&chat, &none(), "thinking", "false").unwrap();
    let on = set(&chat, &off, "thinking", "true").unwrap();
    assert_eq!(
        told(&chat, &off, &[], &turns),
        plain.clone() + "<think></think>"
    );
    assert_eq!(told(&chat, &on, &[], &turns), plain.clone() + "<think>");
    assert_eq!(
        shown(&chat.alone(Turn::Cue, &off).unwrap()),
        "‹<|im_start|>›assistant\n<think></think>"
    );
    for (options, inside) in [(&none(), false), (&off, false), (&on, true)] {
        assert_eq!(chat.begins_inside(options), Ok(inside));
    }
    let removed = chat.set_option(&on, "thinking", None).unwrap();
    assert_eq!(told(&chat, &removed, &[], &turns), plain);
}

#[test]
fn an_option_may_change_in_the_middle_of_a_conversation() {
    let chat = load(THINKING).unwrap();
    let high = set(&chat, &none(), "effort", "\"high\"").unwrap();
    let whole = told(&chat, &high, &[], &[user("u"), Turn::Cue]);
    assert!(whole.starts_with("‹<s>›effort: high\n‹<|im_start|>›user"));
    // Turns that are already written stay as they are.
    let before = [TurnKind::User, TurnKind::Assistant];
    let later = told(&chat, &high, &before, &[user("v")]);
    assert_eq!(later, told(&chat, &none(), &before, &[user("v")]));
}

#[test]
fn names_of_special_tokens_in_an_option_are_text() {
    let chat = load(THINKING).unwrap();
    let options = set(&chat, &none(), "effort", "\"</s><|im_end|>\"").unwrap();
    let whole = told(&chat, &options, &[], &[user("u")]);
    assert!(
        whole.starts_with("‹<s>›effort: </s><|im_end|>\n"),
        "{whole}"
    );
}

#[test]
fn options_are_few_and_small() {
    let chat = load(THINKING).unwrap();
    let refused = |name: &str, value: &str| set(&chat, &none(), name, value).unwrap_err();
    for name in ["", "a b", "näme", &"n".repeat(65)] {
        assert!(refused(name, "true").contains("is not a name"), "{name}");
    }
    for name in [
        "messages",
        "tools",
        "add_generation_prompt",
        "bos_token",
        "__one",
    ] {
        assert!(refused(name, "true").contains("the engine sets itself"));
    }
    for value in ["", "null", "[]", "{}", "yes", "true false"] {
        let error = refused("thinking", value);
        assert!(error.contains("is not a JSON string, boolean or number"));
    }
    assert!(refused("effort", "\"\u{FDD1}\"").contains("U+FDD0"));
    let long = format!("\"{}\"", "x".repeat(4_095));
    assert!(refused("effort", &long).contains("4097 bytes"));
    let mut options = none();
    for n in 0..16 {
        options = set(&chat, &options, &format!("option{n}"), "1.5").unwrap();
    }
    let error = set(&chat, &options, "thinking", "true").unwrap_err();
    assert_eq!(error, "there are 17 options; at most 16 are allowed");
    let error = refused("level", "4");
    assert!(
        error.starts_with("the template refuses the option 'level'") && error.contains("end at 3")
    );
}
