//! Templates that are broken or hostile. Each gives an error that says what is wrong, and none takes much time or
//! memory.
use super::*;

fn error(source: &str) -> String {
    load(source).err().unwrap_or_else(|| "it was loaded".into())
}

/// An error after a turn that is written well.
fn error_in(body: &str) -> String {
    error(&format!("{{{{ messages[0].content }}}}{body}"))
}

#[test]
fn syntax_errors_tell_the_line() {
    assert!(error("a\n{% if %}").starts_with("chat template, line 2: syntax error"));
    assert!(error("{{ messages[0 }}").contains("syntax error"));
    assert!(error("{% for m in messages %}").contains("syntax error"));
    assert!(error("{% unknown %}").contains("unknown statement"));
    assert!(error("{{ 'open }}").contains("syntax error"));
    assert!(error("{{ x | nofilter }}").contains("filter nofilter is unknown"));
    assert!(error("{% include 'other' %}").contains("template not found"));
}

#[test]
fn a_user_must_be_heard() {
    assert!(error("nothing").contains("does not contain the text of a user's turn"));
    assert!(error("{{ raise_exception('no, ' + 'never') }}").ends_with("line 1: no, never"));
    assert!(error("{{ messages.no.such }}").contains("undefined"));
    assert!(error("{{ messages[0].content + 1 }}").contains("string + number is not defined"));
    assert!(error("{{ messages() }}").contains("not callable"));
    assert!(error("").contains("does not contain the text"));
}

#[test]
fn endless_templates_end() {
    let loops = "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor %}{% endfor %}";
    assert!(error_in(loops).contains("takes too many steps"));
    assert!(error_in("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").contains("recursion"));
    assert!(
        error_in("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}").contains("recursion")
    );
    assert!(error_in("{% for a in range(99999999999) %}{% endfor %}").contains("more than"));
}

#[test]
fn huge_texts_are_not_made() {
    let much = "too much text";
    assert!(error_in("{{ 'x' * 99999999999 }}").contains(much));
    assert!(error_in("{% set x = namespace(t='x') %}{% for i in range(99) %}{% set x.t = x.t ~ x.t %}{% endfor %}").contains(much));
    assert!(error_in("{% set x = namespace(t='x') %}{% for i in range(99) %}{% set x.t = x.t + x.t %}{% endfor %}").contains(much));
    assert!(error_in("{% set x = namespace(t='x') %}{% for i in range(99) %}{% set x.t %}{{ x.t }}{{ x.t }}{% endset %}{% endfor %}").contains(much));
    assert!(error_in("{% set x = namespace(t='xx') %}{% for i in range(99) %}{% set x.t = x.t | replace('x', x.t) %}{% endfor %}").contains(much));
    assert!(error_in("{% set x = namespace(t='xx') %}{% for i in range(99) %}{% set x.t = x.t.replace('x', x.t) %}{% endfor %}").contains(much));
    assert!(error_in("{% set x = namespace(t='xx') %}{% for i in range(99) %}{% set x.t = x.t.join(['a', x.t, 'b']) %}{% endfor %}").contains(much));
    assert!(error_in("{% set x = namespace(t=[1]) %}{% for i in range(99) %}{% set x.t = x.t + x.t %}{% endfor %}{{ 2 in x.t }}").contains("more than"));
    let shown = error_in("{{ [1] * 999999999999 }}");
    assert!(shown.contains("more than"), "{shown}");
    assert!(error_in("{% for i in range(1000) %}{% for j in range(40) %}{{ 'x' * 1000 }}{% endfor %}{% endfor %}").contains(much));
    let raw = "y".repeat(100_000);
    assert!(error_in(&format!("{{% for i in range(9999) %}}{raw}{{% endfor %}}")).contains(much));
    assert!(error_in(&format!(
        "{{% set x %}}{{% for i in range(9999) %}}{raw}{{% endfor %}}{{% endset %}}"
    ))
    .contains(much));
    assert!(error_in("{% set x = 'x' * 90000000 %}").contains(much));
    assert!(error_in("{{ 2 * 'x' * 99999999 }}").contains(much));
    assert!(error_in("{{ '%999999999d' | format(1) }}").contains("width"));
    assert!(error_in("{{ '{:999999999}'.format(1) }}").contains("width"));
    assert!(error_in("{% set x = namespace(t=[]) %}{% for i in range(200) %}{% set x.t = [x.t] %}{% endfor %}{{ x.t }}").contains("nested deeper"));
    assert!(error_in("{% set x = namespace(t=[]) %}{% for i in range(200) %}{% set x.t = [x.t] %}{% endfor %}{{ x.t | tojson }}").contains("nested deeper"));
}

#[test]
fn templates_have_a_length() {
    assert!(error(&"x".repeat(2 << 20)).contains("is the limit"));
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(error_in(&deep).contains("line 1"));
    let deep = format!(
        "{}{}",
        "{% if true %}".repeat(5000),
        "{% endif %}".repeat(5000)
    );
    assert!(error_in(&deep).contains("line 1"));
}
