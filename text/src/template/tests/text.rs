//! The language of templates does what Python's Jinja does in transformers.
use super::*;

/// The text that `body` prints, with the messages of a small conversation at hand.
fn print(body: &str) -> String {
    let chat = match load(&format!("{{{{ messages[0].content }}}}{body}")) {
        Ok(chat) => chat,
        Err(error) => return format!("error: {error}"),
    };
    let conversation =
        json!({"messages": [{"role": "user", "content": "U", "n": 3, "list": [1, "a", null]}]});
    match chat.render(&conversation.to_string()) {
        Ok(text) => text[1..].to_string(),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn values_print_as_python_prints_them() {
    assert_eq!(
        print("{{ none }} {{ true }} {{ 1.0 }} {{ nothing }}"),
        "None True 1.0 "
    );
    assert_eq!(print("{{ messages[0].list }}"), "[1, 'a', None]");
    assert_eq!(
        print("{{ {'a': 'it\\'s', 'b': [true]} }}"),
        "{'a': \"it's\", 'b': [True]}"
    );
    assert_eq!(
        print("{{ 'x' ~ none ~ 1 }} {{ 1e20 }} {{ 0.00001 }}"),
        "xNone1 1e+20 1e-05"
    );
    assert_eq!(print("{{ none | trim }}{{ 5 | string | length }}"), "None1");
}

#[test]
fn json_is_pythons() {
    assert_eq!(print("{{ [1, 'a', none] | tojson }}"), "[1, \"a\", null]");
    assert_eq!(
        print("{{ {'é<': '\\n\"', 'x': {}} | tojson }}"),
        "{\"é<\": \"\\n\\\"\", \"x\": {}}"
    );
    assert_eq!(
        print("{{ [1, {'a': []}] | tojson(indent=2) }}"),
        "[\n  1,\n  {\n    \"a\": []\n  }\n]"
    );
    assert_eq!(
        print("{{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, ensure_ascii=true) }}"),
        "{\"a\": \"\\u00e9\", \"b\": 1}"
    );
    assert_eq!(
        print("{{ [1, 2] | tojson(separators=(',', ':')) }}"),
        "[1,2]"
    );
}

#[test]
fn python_methods_and_loop_controls() {
    assert_eq!(print("{{ ' a-b '.strip().split('-') | join('+') }}"), "a+b");
    assert_eq!(
        print("{{ 'a<x>b<x>c'.rsplit('<x>', 1)[0] }}{{ 'abc'.removeprefix('a') }}"),
        "a<x>bbc"
    );
    assert_eq!(print("{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}"), "0134");
    assert_eq!(print("{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}"), "6");
    assert_eq!(print("{{ 'ab' * 2 }}{{ [1] + [2] }}{{ 'b' in 'abc' }}{{ 3 in [1, 3] }}{{ 'n' in messages[0] }}"),
               "abab[1, 2]TrueTrueTrue");
    assert_eq!(
        print("{{ 2 * 3 * 4 }} {{ 2 ** 3 * 2 }} {{ -2 * -3 }}"),
        "24 16 6"
    );
    assert_eq!(
        print("{{ messages[::-1] | length }}{{ nothing | length }}"),
        "10"
    );
}

#[test]
fn blocks_swallow_the_lines_that_they_stand_on() {
    assert_eq!(print("\n  {% if true %}\nx\n  {% endif %}\ny\n"), "\nx\ny");
    assert_eq!(
        print("{% generation %}\nx{% endgeneration %}\n{%- if true -%} y {%- endif -%}"),
        "xy"
    );
    assert_eq!(
        print("{# note #}\n\"quotes\\\" {% raw %}{{ raw }}{% endraw %}"),
        "\"quotes\\\" {{ raw }}"
    );
}

#[test]
fn time_is_told_by_format() {
    assert_eq!(print("{{ strftime_now('%d %b %Y') }}"), "15 Jan 2025");
    assert!(print("{{ strftime_now('%Q!') }}").contains("does not know the format"));
}
