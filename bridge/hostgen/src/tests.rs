//! The promises of the generator to those who add a host function.
use crate::{generate, Generated};
use std::path::{Path, PathBuf};

/// The contract of this tree, with `added` after the last interface of pie:plus.
fn with(added: &str) -> Result<Generated, String> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("pie-hostgen-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit"),
        &folder,
    );
    append(&folder.join("deps/plus/plus.wit"), added);
    let world = std::fs::read_to_string(folder.join("world.wit")).unwrap();
    let world = match added.is_empty() {
        true => world,
        false => world.replace(
            "import pie:plus/steps;",
            "import pie:plus/steps; import pie:plus/probe;",
        ),
    };
    std::fs::write(folder.join("world.wit"), world).unwrap();
    let made = generate(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    made
}

fn copy(from: &Path, to: &PathBuf) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

fn append(path: &Path, text: &str) {
    let old = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, old + text).unwrap();
}

/// Without spaces, line breaks and last commas, which the formatter chooses.
fn dense(text: &str) -> String {
    let text: String = text.split_whitespace().collect();
    text.replace(",)", ")").replace(",}", "}")
}

#[track_caller]
fn assert_has(text: &str, part: &str) {
    assert!(
        dense(text).contains(&dense(part)),
        "{part}\nis not in\n{text}"
    );
}

fn error(added: &str) -> String {
    with(added).err().expect("it cannot be translated")
}

#[test]
fn one_line_of_wit_becomes_a_function_of_both_languages() {
    let made =
        with("interface probe { /// How many.\n free-pages: func(names: list<string>) -> u32; }")
            .unwrap();
    assert_has(
        &made.api_h,
        "// How many.
        Result<uint32_t> ProbeFreePages(Process& process, std::span<const pie_bridge::Str> names);",
    );
    assert_has(
        &made.table_h,
        "return ProbeFreePages(process, View(names));",
    );
    assert_has(
        &made.table_rs,
        "pub probe_free_pages: extern \"C\" fn(guest: GuestPtr, names: List<Str>, result: *mut u32, reply: *mut Reply) -> bool",
    );
    assert_has(
        &made.calls_rs,
        "impl pie::plus::probe::Host for Guest { fn free_pages(&mut self, names: Vec<String>)",
    );
    assert_has(&made.calls_rs, "pie::plus::probe::add_to_linker");
}

#[test]
fn results_with_an_error_reach_the_guest_and_others_trap() {
    let made = with(
        "interface probe {
            use pie:core/types.{error};
            try: func() -> result<option<f64>, error>;
            must: func(a: option<string>) -> list<tuple<u64, string>>;
        }",
    )
    .unwrap();
    assert_has(
        &made.api_h,
        "Result<std::optional<double>> ProbeTry(Process& process);",
    );
    assert_has(
        &made.calls_rs,
        "Ok(self.reply(|host, reply| (host.table.probe_try)(host.guest, reply)))",
    );
    assert_has(
        &made.api_h,
        "Result<std::vector<std::tuple<uint64_t, std::string>>> ProbeMust(
            Process& process, std::optional<std::string_view> a);",
    );
    assert_has(
        &made.calls_rs,
        "trap(self.reply(|host, reply| (host.table.probe_must)(host.guest, optional(&a), reply)))",
    );
}

#[test]
fn a_resource_has_its_own_drop_and_pollable() {
    let made = with(
        "interface probe {
            use wasi:io/poll@0.2.12.{pollable};
            resource alarm { constructor(at: u64); pollable: func() -> pollable; }
        }",
    )
    .unwrap();
    for function in [
        "Result<uint32_t> AlarmNew",
        "Result<const pie_bridge::Signal*> AlarmPollable",
        "Status AlarmDrop",
    ] {
        assert_has(&made.api_h, function);
    }
    assert_has(
        &made.calls_rs,
        "\"pie:plus/probe.alarm\": super::handles::Alarm",
    );
}

/// A grammar can make any call of a matcher expensive, also one with a single token.
#[test]
fn calls_of_matchers_leave_lent_threads() {
    let made = with("").unwrap();
    for function in [
        "accept_tokens",
        "next_token_logit_mask",
        "is_terminated",
        "constrain",
        "forced_tokens",
        "rollback",
    ] {
        assert_has(&made.calls_rs, &format!("async fn {function}("));
    }
}

/// Checking such an answer takes milliseconds, and the thread that makes it known has other guests to run.
#[test]
fn long_answers_are_taken_apart_from_other_guests() {
    let made = with("").unwrap();
    let calls = dense(&made.calls_rs);
    let call = calls.split("asyncfncall_tool(").nth(1).unwrap();
    let call = call.split("asyncfn").next().unwrap();
    assert!(
        call.contains("signal.fired().await;go_apart().await;"),
        "{call}"
    );
}

/// Otherwise one function would silently answer for the other.
#[test]
fn a_name_that_is_taken_gets_its_interface_in_front() {
    let made = with("interface probe { resource decoder { reset: func(); } }").unwrap();
    assert_has(
        &made.api_h,
        "Status ProbeDecoderReset(Process& process, uint32_t probe_decoder);",
    );
    assert_has(
        &made.api_h,
        "Status ChatDecoderReset(Process& process, uint32_t chat_decoder);",
    );
}

#[test]
fn records_and_enums_cross_in_both_directions() {
    let made = with(
        "interface probe {
            enum color { red, dark-blue }
            record paint { color: color, names: list<string>, age: option<u32> }
            mix: func(all: list<paint>) -> paint;
        }",
    )
    .unwrap();
    assert_has(&made.table_rs, "pub enum ProbeColor { Red, DarkBlue, }");
    assert_has(&made.table_rs, "pub struct ProbePaint { pub color: ProbeColor, pub names: List<Str>, pub age: *const u32, }");
    assert_has(
        &made.api_h,
        "struct ProbePaint { ProbeColor color = {}; std::vector<std::string> names = {};",
    );
    assert_has(
        &made.table_h,
        "inline void Put(Reply* reply, const ProbePaint& value)",
    );
    assert_has(&made.calls_rs, "impl Take for pie::plus::probe::Paint");
}

#[test]
fn what_cannot_be_translated_says_what_to_do() {
    let variant = "interface probe { variant shape { dot, line(u32) } draw: func(shape: shape); }";
    assert_eq!(
        error(variant),
        "pie:plus/probe.draw: parameter shape: pie:plus/probe.shape is a variant: make it flat by hand, and list it in FLAT_BY_HAND"
    );
    assert_eq!(
        error("interface probe { spell: func(letter: char); }"),
        "pie:plus/probe.spell: the type Char is not supported"
    );
    assert_eq!(
        error("interface probe { resource seed { s: func(); } resource steps { begin: func(); } resource chain { a: func(); } resource probe-chain { a: func(); } }"),
        "two host functions are named ProbeChainA; pie:plus/probe.probe-chain.a is one of them: give one interface another prefix in PREFIXES"
    );
}

/// A function that waits must have the form of one.
#[test]
fn functions_that_wait_take_a_wait() {
    let made = with("").unwrap();
    assert_has(
        &made.api_h,
        "Status ContextSave(Process& process, uint32_t context, std::string_view name, Wait& wait);",
    );
    assert_has(
        &made.calls_rs,
        "\"pie:core/context.[method]context.save\": async | trappable,",
    );
}

#[test]
fn lines_of_cpp_fit_the_house_style() {
    let made = with("").unwrap();
    for line in made.api_h.lines().chain(made.table_h.lines()) {
        assert!(line.len() <= 100 || line.starts_with("//"), "{line}");
    }
}
