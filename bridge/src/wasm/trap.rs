//! The error text of a guest that trapped: the cause, the end of its stderr, and the functions on its stack, with the
//! lines of the user's sources if the component has them.

use super::lines::Lines;
use super::stdio::Stdio;
use super::store::Guest;
use wasmtime::component::ResourceTableError;
use wasmtime::{FrameInfo, Store, Trap, WasmBacktrace};

/// How many frames of a backtrace an error shows.
const SHOWN_FRAMES: usize = 16;
/// The bytes of a function's name in a backtrace. Names of generic functions in Rust have some hundreds.
const NAME_BYTES: usize = 4 << 10;

/// Describes a trap: its cause, the end of the guest's stderr, and the backtrace. If
/// `quotes_panic`, a Rust panic is described by its message and its place. The client of an HTTP request, who did not
/// launch the program, is shown the first line and reads no text of the program's insides there.
pub fn describe(
    error: &wasmtime::Error,
    store: &Store<Guest>,
    stdio: &Stdio,
    lines: Option<&Lines>,
    quotes_panic: bool,
) -> String {
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return format!("the inferlet called exit({}) instead of returning", exit.0);
    }
    let guest = store.data();
    let mut text = match &guest.refused {
        Some(refused) => refused.clone(),
        None if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) => format!(
            "handle limit: the inferlet holds {} WASI handles (pollables, streams, files)",
            guest.table.max_capacity()
        ),
        None => error.root_cause().to_string(),
    };
    let stderr = stdio.stderr_tail();
    let mut last_words = stderr.as_str();
    let aborted = error.downcast_ref::<Trap>() == Some(&Trap::UnreachableCodeReached);
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let frames = backtrace.map(|b| frames(b, lines)).unwrap_or_default();
    if quotes_panic && aborted && guest.refused.is_none() {
        let of_library = frames.first().is_some_and(|frame| frame.name == "abort");
        let panic = Panic::find(&stderr);
        if let Some(panic) = panic.or_else(|| of_library.then(|| Panic::of_cpp(&stderr))) {
            text = panic.message;
            // A failed check inside a library names the library's file. The user's line is on the stack.
            let own = frames.iter().find_map(|frame| frame.line.clone());
            for place in [Some(panic.place), own].into_iter().flatten() {
                let told = format!("\n    at {place}");
                if !place.is_empty() && !text.ends_with(&told) {
                    text += &told;
                }
            }
            last_words = panic.before;
        }
    }
    if !last_words.is_empty() {
        text += &format!("\nthe end of its stderr:\n{last_words}");
    }
    if backtrace.is_some() {
        text += "\nwasm backtrace:";
        let inside = frames.iter().skip_while(|frame| aborts(&frame.name));
        for (i, frame) in inside.take(SHOWN_FRAMES).enumerate() {
            text += &format!("\n  {i}: {}", frame.name);
            if let Some(line) = &frame.line {
                text += &format!(" at {line}");
            }
        }
    }
    text
}

const ASSERTION: &str = "Assertion failed: ";
const ABI: &str = "libc++abi: ";

/// Why a program has given up, as the library of its language writes it to stderr.
#[derive(Debug, PartialEq)]
struct Panic<'a> {
    message: String,
    /// The file and the line, or nothing.
    place: String,
    /// The text that was written before the panic.
    before: &'a str,
}

impl<'a> Panic<'a> {
    /// The Rust panic at the end of the guest's stderr: `thread 'main' panicked at FILE:LINE:COLUMN:`, and the message
    /// below.
    fn find(stderr: &'a str) -> Option<Self> {
        const PANICKED: &str = " panicked at ";
        let at = stderr.rfind(PANICKED)?;
        let begin = stderr[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let (place, message) = stderr[at + PANICKED.len()..].split_once(":\n")?;
        let (place, _column) = place.rsplit_once(':')?;
        if !stderr[begin..].starts_with("thread '") || place.contains('\n') {
            return None;
        }
        let end = message
            .find("\nnote: run with `RUST_BACKTRACE")
            .unwrap_or(message.len());
        Some(Panic {
            message: message[..end].into(),
            place: place.into(),
            before: stderr[..begin].trim_end(),
        })
    }

    /// Why a C++ program has called `abort`, by the last line of its stderr. C++ is built without exceptions: where a
    /// library would throw one, it says so and aborts.
    fn of_cpp(stderr: &'a str) -> Self {
        let all = stderr.trim_end();
        let begin = all.rfind('\n').map_or(0, |newline| newline + 1);
        let line = &all[begin..];
        let told = |from: usize, message: String, place: String| Panic {
            message,
            place,
            before: all[..begin + from].trim_end(),
        };
        // Text that the program has printed may stand before it in the line.
        let last_word = |text: &str| text.rfind(' ').map_or(0, |space| space + 1);
        if let Some((head, rest)) = line.split_once(" was thrown in -fno-exceptions mode") {
            let from = last_word(head);
            let what = rest.trim_start_matches(" with message ").trim_matches('"');
            let colon = if what.is_empty() { "" } else { ": " };
            let message = format!("{}{colon}{what}", &head[from..]);
            return told(from, message, String::new());
        }
        if let Some((head, rest)) = line.split_once(": libc++ Hardening assertion ") {
            let from = last_word(head);
            let message = rest.split_once(" failed: ").map_or(rest, |parts| parts.1);
            return told(from, message.into(), head[from..].into());
        }
        if let Some(from) = line.find(ASSERTION) {
            // Assertion failed: WHAT (FILE: FUNCTION: LINE)
            let parts = line[from..].rsplit_once(" (");
            let (message, place) = parts.unwrap_or((&line[from..], ""));
            let mut place = place.trim_end_matches(')').split(": ");
            let place = match (place.next(), place.last()) {
                (Some(file), Some(number)) => format!("{file}:{number}"),
                _ => String::new(),
            };
            return told(from, message.into(), place);
        }
        if let Some(from) = line.find(ABI) {
            return told(from, line[from + ABI.len()..].into(), String::new());
        }
        Panic {
            message: "the program called abort()".into(),
            place: String::new(),
            before: all,
        }
    }
}

/// Whether a function at the top of the stack belongs to C++'s way of aborting, and tells nothing of the program.
fn aborts(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "abort",
        "__abort_message",
        "__assert_fail",
        "demangling_terminate_handler()",
        "std::terminate()",
        "std::__terminate(void (*)())",
    ];
    NAMES.contains(&name)
        || name.starts_with("std::__1::__libcpp_verbose_abort(")
        || name.starts_with("std::__1::") && name.contains("__throw_")
}

struct Frame {
    name: String,
    /// The user's file and line.
    line: Option<String>,
}

/// The functions on the stack, innermost first, without those that only belong to a Rust panic.
fn frames(backtrace: &WasmBacktrace, lines: Option<&Lines>) -> Vec<Frame> {
    let mut frames: Vec<Frame> = backtrace
        .frames()
        .iter()
        .take(2 * SHOWN_FRAMES)
        .map(|frame| Frame {
            name: name_of(frame),
            line: lines.and_then(|lines| line_of(frame, lines)),
        })
        .collect();
    let panicking =
        |frame: &Frame| frame.name.contains("panicking::") || frame.name.contains("begin_unwind");
    if let Some(last) = frames.iter().rposition(panicking) {
        frames.drain(..=last);
    }
    frames
}

fn name_of(frame: &FrameInfo) -> String {
    let name = frame.func_name().unwrap_or("<unnamed>");
    // A component's function names can have any length, and some grow a lot when they are demangled.
    if name.len() > NAME_BYTES {
        return "<long name>".into();
    }
    let name = format!("{:#}", rustc_demangle::demangle(name));
    match name.char_indices().nth(NAME_BYTES) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// The line table belongs to the program's own module. Among a component's modules, that is the one with the memory.
fn line_of(frame: &FrameInfo, lines: &Lines) -> Option<String> {
    frame.module().get_export("memory")?;
    let offset = u32::try_from(frame.func_offset()?).ok()?;
    lines.find(frame.func_index(), offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_found_at_the_end_of_stderr() {
        let note = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";
        let stderr = format!(
            "printed\n\nthread 'main' (1) panicked at src/lib.rs:12:5:\ntwo\nlines\n{note}"
        );
        let panic = Panic {
            message: "two\nlines".into(),
            place: "src/lib.rs:12".into(),
            before: "printed",
        };
        assert_eq!(Panic::find(&stderr), Some(panic));
        let bare = Panic::find("thread '<unnamed>' panicked at src/lib.rs:3:1:\nwhy").unwrap();
        assert_eq!(
            (&*bare.message, &*bare.place, bare.before),
            ("why", "src/lib.rs:3", "")
        );
    }

    #[test]
    fn other_texts_are_no_panics() {
        for stderr in [
            "",
            "why",
            "it panicked at src/lib.rs:3:1:\nwhy",
            "thread 'main' panicked at noon",
            "thread 'main' panicked at noon\nat src/lib.rs:3:1:\nwhy",
        ] {
            assert_eq!(Panic::find(stderr), None, "{stderr}");
        }
    }

    #[test]
    fn an_abort_of_cpp_is_told_by_its_library() {
        for (line, message, place) in [
            (
                "out_of_range was thrown in -fno-exceptions mode with message \"vector\"",
                "out_of_range: vector",
                "",
            ),
            (
                "bad_optional_access was thrown in -fno-exceptions mode",
                "bad_optional_access",
                "",
            ),
            (
                "libc++/optional:1141: libc++ Hardening assertion this->has_value() failed: optional operator* called \
                 on a disengaged value\n",
                "optional operator* called on a disengaged value",
                "libc++/optional:1141",
            ),
            (
                "Assertion failed: n == 7 && \"(why)\" (main.cpp: Which: 17)\n",
                "Assertion failed: n == 7 && \"(why)\"",
                "main.cpp:17",
            ),
            ("libc++abi: terminating\n", "terminating", ""),
        ] {
            for before in ["", "two\nlines\n", "no end of a line "] {
                let stderr = format!("{before}{line}");
                let found = Panic::of_cpp(&stderr);
                assert_eq!((&*found.message, &*found.place), (message, place));
                assert_eq!(found.before, before.trim_end());
            }
        }
        let silent = Panic::of_cpp("words\n");
        assert_eq!(silent.message, "the program called abort()");
        assert_eq!((&*silent.place, silent.before), ("", "words"));
    }

    #[test]
    fn the_way_to_an_abort_tells_nothing() {
        for name in [
            "abort",
            "std::__1::__libcpp_verbose_abort(char const*, ...)",
            "std::__1::vector<int, std::__1::allocator<int>>::__throw_out_of_range[abi:fen220108]()",
        ] {
            assert!(aborts(name));
        }
        for name in ["Which(int)", "std::__1::stoi(char)", "<unnamed>"] {
            assert!(!aborts(name));
        }
    }
}
