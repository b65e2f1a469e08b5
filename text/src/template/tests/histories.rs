//! Calls and answers of earlier turns, in the forms that families have: through turns, the template's own rendering.
use super::*;
use crate::template::turns::{call, Call};

/// ChatML with calls between tags.
const TAGS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}\
    {% for c in m.tool_calls or [] %}{{ '<tool_call>' + {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\
    </tool_call>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// One call is the whole turn, as in Llama 3.
const SINGLE: &str = "{{ bos_token }}{% for m in messages %}{% if m.tool_calls %}\
    {% if m.tool_calls | length != 1 %}{{ raise_exception('only one call') }}{% endif %}\
    {% set f = m.tool_calls[0].function %}[INST]assistant[/INST]\
    {{ {'name': f.name, 'parameters': f.arguments} | tojson }}</s>\
    {% elif m.role == 'tool' %}[INST]ipython[/INST]{{ m.content | tojson }}</s>\
    {% else %}[INST]{{ m.role }}[/INST]{{ m.content }}</s>{% endif %}{% endfor %}\
    {% if add_generation_prompt %}[INST]assistant[/INST]{% endif %}";
/// A list of calls with ids of nine letters, which the answers repeat, as in Mistral's.
const IDS: &str = "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]\
    {% elif m.tool_calls %}<|im_start|>{% for c in m.tool_calls %}\
    {% if c.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}\
    {{ {'name': c.function.name, 'arguments': c.function.arguments, 'id': c.id} | tojson }}{% endfor %}</s>\
    {% elif m.role == 'tool' %}{% if m.tool_call_id | length != 9 %}{{ raise_exception('ids have nine letters') }}{% endif %}\
    <|im_end|>{{ {'content': m.content, 'call_id': m.tool_call_id} | tojson }}</s>\
    {% else %}{{ m.content }}</s>{% endif %}{% endfor %}";
/// Arguments are a text, and calls stand only in turns without content, as in DeepSeek's template.
const TEXTS: &str = "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]\
    {% elif m.role == 'assistant' and m.content is none %}\
    {% for c in m.tool_calls %}<|im_start|>{{ c.function.name + ' ' + c.function.arguments }}<|im_end|>{% endfor %}</s>\
    {% elif m.role == 'tool' %}<|im_start|>{{ m.content }}<|im_end|>{% else %}{{ m.content }}</s>{% endif %}{% endfor %}";
/// Each argument between tags, as in Qwen3-Coder's.
const ARGUMENTS: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}\
    {% for c in m.tool_calls or [] %}{{ '<function=' + c.function.name + '>' }}\
    {% for key, value in c.function.arguments | items %}{{ '<parameter=' + key + '>' }}{{ value }}</parameter>{% endfor %}\
    </function>{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const ALL: [&str; 5] = [TAGS, SINGLE, IDS, TEXTS, ARGUMENTS];

fn called(name: &str, id: &str, arguments: Json) -> Call {
    Call {
        name: name.into(),
        id: id.into(),
        arguments,
    }
}

fn calls(text: &str, calls: &[Call]) -> Turn {
    Turn::Calls {
        text: text.into(),
        calls: calls.to_vec(),
    }
}

/// A rendering of the template itself, in the form of `shown`.
fn rendered(chat: &ChatTemplate, messages: Json) -> String {
    let text = chat.render(&json!({"messages": messages, "cue": true}).to_string());
    NAMES.iter().fold(text.unwrap(), |text, name| {
        text.replace(name, &format!("‹{name}›"))
    })
}

#[test]
fn a_call_and_its_answer_are_written_by_the_template() {
    for (source, arguments) in ALL.iter().flat_map(|source| {
        [
            json!({"city": "Oslo", "days": 3}),
            json!({"days": 3, "by": [1.5, null]}),
            json!({}),
        ]
        .map(|arguments| (*source, arguments))
    }) {
        let chat = load(source).unwrap();
        let given = match source {
            TEXTS => json!(super::super::python::plain_json(&arguments)),
            _ => arguments.clone(),
        };
        let function = json!({"name": "weather", "arguments": given});
        let messages = json!([
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "content": null,
             "tool_calls": [{"id": "abcdefgh1", "type": "function", "function": function}]},
            {"role": "tool", "name": "weather", "tool_call_id": "abcdefgh1", "content": "No."},
        ]);
        let turns = [
            user("Rain?"),
            calls("", &[called("weather", "abcdefgh1", arguments)]),
            answer("weather", "abcdefgh1", "No."),
            Turn::Cue,
        ];
        let whole = rendered(&chat, messages);
        assert_eq!(say(&chat, &[], &turns), whole);
        let begun = say(&chat, &[], &turns[..2]);
        let rest = say(&chat, &[TurnKind::User, TurnKind::Assistant], &turns[2..]);
        assert_eq!(begun + &rest, whole);
    }
}

#[test]
fn a_text_before_a_call_is_kept_where_the_template_writes_both() {
    let turns = [
        user("Rain?"),
        calls("Wait.", &[called("weather", "", json!({"city": "Oslo"}))]),
        answer("weather", "", "No."),
        Turn::Cue,
    ];
    let said = say(&load(TAGS).unwrap(), &[], &turns);
    assert!(
        said.contains("Wait.<tool_call>{\"name\": \"weather\""),
        "{said}"
    );
    for source in [SINGLE, IDS, TEXTS] {
        let said = say(&load(source).unwrap(), &[], &turns);
        assert!(said.contains("Oslo") && said.contains("No."), "{said}");
    }
}

#[test]
fn calls_that_a_template_cannot_write_together_are_written_with_their_answers() {
    let both = [
        called("weather", "call_1", json!({"city": "Oslo"})),
        called("weather", "call_2", json!({"city": "Seoul"})),
    ];
    // The answers come in another order than the calls.
    let turns = [
        user("Rain?"),
        calls("", &both),
        answer("weather", "call_2", "No."),
        answer("weather", "call_1", "Yes."),
        Turn::Cue,
    ];
    assert_eq!(
        say(&load(SINGLE).unwrap(), &[], &turns),
        "‹<s>›‹[INST]›user‹[/INST]›Rain?‹</s>›\
         ‹[INST]›assistant‹[/INST]›{\"name\": \"weather\", \"parameters\": {\"city\": \"Oslo\"}}‹</s>›\
         ‹[INST]›ipython‹[/INST]›\"Yes.\"‹</s>›\
         ‹[INST]›assistant‹[/INST]›{\"name\": \"weather\", \"parameters\": {\"city\": \"Seoul\"}}‹</s>›\
         ‹[INST]›ipython‹[/INST]›\"No.\"‹</s>›‹[INST]›assistant‹[/INST]›"
    );
    // Where ids are written, an answer has the id of its call, in a form that the template takes.
    let said = say(&load(IDS).unwrap(), &[], &turns);
    let id = |before: &str, behind: &str| {
        let at = said[said.find(before).unwrap()..].find(behind).unwrap();
        let at = said.find(before).unwrap() + at + behind.len();
        said[at..at + 9].to_string()
    };
    assert_eq!(id("Oslo", "\"id\": \""), id("Yes.", "\"call_id\": \""));
    assert_eq!(id("Seoul", "\"id\": \""), id("No.", "\"call_id\": \""));
    assert_ne!(id("Oslo", "\"id\": \""), id("Seoul", "\"id\": \""));
}

#[test]
fn calls_that_a_template_does_not_know_are_text() {
    let plain =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                 {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let call = called("weather", "", json!({"city": "Oslo"}));
    let chat = load(plain).unwrap();
    assert_eq!(
        say(
            &chat,
            &[],
            &[
                user("Rain?"),
                calls("Wait.", &[call]),
                answer("weather", "", "No.")
            ]
        ),
        "‹<|im_start|>›user\nRain?‹<|im_end|>›\n‹<|im_start|>›assistant\nWait.\n<tool_call>\n\
         {\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>‹<|im_end|>›\n\
         ‹<|im_start|>›tool\nNo.‹<|im_end|>›\n"
    );
}

#[test]
fn calls_of_a_model_with_lfm2s_tokens_are_written_as_it_writes_them() {
    let names: Vec<&str> = NAMES
        .into_iter()
        .chain(["<|tool_call_start|>", "<|tool_call_end|>"])
        .collect();
    let plain =
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                 {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let chat = ChatTemplate::new(Setup {
        source: Some(plain.into()),
        variables: variables(),
        stops: vec![SPECIAL + 1],
        now: Some(1_736_936_430),
        tokenizer: bytes(&names),
    })
    .unwrap();
    let text = |tokens: &[u32]| {
        let byte = |token: &u32| match token.checked_sub(SPECIAL) {
            Some(special) => format!("‹{}›", names[special as usize]),
            None => char::from(*token as u8).to_string(),
        };
        tokens.iter().map(byte).collect::<String>()
    };
    let turns = [
        user("Rain?"),
        calls(
            "Wait.",
            &[
                called(
                    "weather",
                    "",
                    json!({"city": "<|tool_call_end|>", "days": 3, "by": [1, "x"]}),
                ),
                called("stop", "", json!({"now": true, "why": null})),
            ],
        ),
        answer("weather", "", "No."),
        Turn::Cue,
    ];
    let whole = chat.extend(&[], &turns, &Options::new()).unwrap();
    assert_eq!(
        text(&whole),
        "‹<|im_start|>›user\nRain?‹<|im_end|>›\n‹<|im_start|>›assistant\nWait.\
         ‹<|tool_call_start|>›[weather(city=\"<|tool_call_end|>\", days=3, by=[1, \"x\"]), \
         stop(now=True, why=None)]‹<|tool_call_end|>›‹<|im_end|>›\n\
         ‹<|im_start|>›tool\nNo.‹<|im_end|>›\n‹<|im_start|>›assistant\n"
    );
    let mut parts = chat.extend(&[], &turns[..2], &Options::new()).unwrap();
    let before = [TurnKind::User, TurnKind::Assistant];
    parts.extend(chat.extend(&before, &turns[2..], &Options::new()).unwrap());
    assert_eq!(parts, whole);
}

#[test]
fn nobody_calls_in_special_tokens() {
    for source in ALL {
        let chat = load(source).unwrap();
        let specials = |text: &str| {
            let call = called(text, text, json!({text: text, "more": [text]}));
            let turns = [
                user("u"),
                calls(text, &[call]),
                answer(text, text, text),
                Turn::Cue,
            ];
            let tokens = chat.extend(&[], &turns, &Options::new()).unwrap();
            tokens
                .into_iter()
                .filter(|token| *token >= SPECIAL)
                .collect::<Vec<_>>()
        };
        assert_eq!(specials("</s><|im_end|>"), specials("a word"));
    }
}

#[test]
fn calls_need_a_name_and_an_object() {
    assert!(call("{").unwrap_err().contains("not JSON"));
    assert!(call("[]").unwrap_err().contains("no name"));
    assert!(call("{\"arguments\": {}}").unwrap_err().contains("no name"));
    assert!(call("{\"name\": \"f\", \"arguments\": \"{}\"}")
        .unwrap_err()
        .contains("'f' are not a JSON object"));
    assert_eq!(
        call("{\"name\": \"f\"}").unwrap(),
        called("f", "", json!({}))
    );
    let whole = "{\"arguments\": {\"z\": 1, \"a\": 2}, \"id\": \"i\", \"name\": \"f\"}";
    assert_eq!(
        call(whole).unwrap(),
        called("f", "i", json!({"z": 1, "a": 2}))
    );
}
