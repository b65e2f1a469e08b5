"""`pie run` and other commands as a user meets them: components, exit codes, streams, signals.

Python and JavaScript components compile for seconds when they are new, so each runs once here; what
does not depend on the language is shown with Rust components.
"""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import configuration
import pytest

OPTIMISING = "optimising the code for later runs (Ctrl-C skips this)"
ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("rust", "python", "typescript", "cpp")
every_language = pytest.mark.parametrize("language", LANGUAGES)


def assert_fails(done: subprocess.CompletedProcess[str], words: str) -> None:
    """`pie` failed with one line on stderr that contains `words`, and nothing on stdout."""
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("error: "), done.stderr
    assert words in done.stderr
    assert "terminate called" not in done.stderr


# The examples' answers.


@every_language
def test_hello_greets_by_name(run, guest, language):
    done = run("run", "--dummy", *guest(f"hello-{language}"), "--", "--name", "Ada")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello, Ada!\n", "")


@every_language
def test_text_completion_streams_before_it_returns(pie, guest, language):
    # A socket that keeps message boundaries shows whether the text was written in pieces.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = guest(f"text-completion-{language}")
    with subprocess.Popen(
        [pie, "run", "--dummy", *program, "--stdout", "--", "--prompt", "Hi", "--max-tokens", "64"],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        theirs.close()
        ours.settimeout(240)
        writes = list(iter(lambda: ours.recv(1 << 16).decode(), ""))
        assert child.wait() == 0, child.stderr.read()
    *deltas, returned = writes
    assert len(deltas) > 3
    assert returned == "\n" + "".join(deltas) + "\n"


@every_language
def test_parallel_generation_returns_as_many_as_asked_for(run, guest, language):
    program = guest(f"parallel-generation-{language}")
    done = run("run", "--dummy", *program, "--debug", "--", "--n", "3", "--max-tokens", "12")
    assert done.returncode == 0, done.stderr
    texts = json.loads(done.stdout)
    assert len(texts) == 3
    assert all(isinstance(text, str) and text for text in texts)
    assert len(set(texts)) > 1, "each generation samples independently"
    assert done.stderr == (
        "counts: instances=0 handles=0 contexts=0 pages=0 snapshots=0 topics=0\n"
    )


# Stdout and stderr.


def test_without_stdout_only_the_return_value_is_printed(run, guest):
    program = guest("text-completion-rust")
    quiet = run("run", "--dummy", *program, "--", "--prompt", "Hi")
    streamed = run("run", "--dummy", *program, "--stdout", "--", "--prompt", "Hi")
    assert quiet.returncode == streamed.returncode == 0
    assert streamed.stdout == quiet.stdout * 2, "the same text, streamed and then returned"


def test_stderr_is_mirrored_and_a_trap_is_an_error(run, guest):
    done = run("run", "--dummy", *guest("hostile-guest"), "--input", '{"mode": "panic"}')
    assert done.returncode == 1
    assert done.stdout == ""
    mirrored, _, error = done.stderr.partition("error: ")
    assert "the guest's own message" in mirrored
    assert "wasm backtrace" in error


def test_error_of_the_inferlet_is_the_error(run, guest):
    done = run("run", "--dummy", *guest("hostile-guest"), "--input", '{"mode": "fail"}')
    assert_fails(done, "the guest's own error")


def test_nothing_is_left_after_a_panic_with_hands_full(run, guest):
    program = guest("hostile-guest")
    done = run("run", "--dummy", *program, "--debug", "--input", '{"mode": "panic_holding"}')
    assert done.returncode == 1
    assert "counts: instances=0 handles=0 contexts=0 pages=0 snapshots=0 topics=0" in done.stderr


def test_stdout_that_cannot_be_written_is_an_error(pie, guest):
    with open("/dev/full", "w") as full:
        command = [pie, "run", "--dummy", *guest("hello-rust")]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "cannot write to stdout" in done.stderr


def test_colours_are_for_terminals(pie, run, guest, tmp_path):
    command = [pie, "run", "--dummy", "--path", tmp_path / "none.wasm"]
    assert "\x1b" not in run(*command[1:]).stderr

    def on_a_terminal(env: dict[str, str]) -> str:
        ours, theirs = pty.openpty()
        subprocess.run(command, stderr=theirs, env={**os.environ, **env}, check=False)
        os.close(theirs)
        text = os.read(ours, 1 << 16).decode()
        os.close(ours)
        return text

    assert "\x1b[31merror:" in on_a_terminal({"TERM": "xterm", "NO_COLOR": ""})
    assert "\x1b" not in on_a_terminal({"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in on_a_terminal({"TERM": "dumb", "NO_COLOR": ""})


def test_control_characters_of_a_guest_do_not_reach_a_terminal(pie, run, guest):
    command = ["run", "--dummy", *guest("hello-rust"), "--input", r'{"name": "\u001b]0;x\u0007"}']
    assert "\x1b" in run(*command).stdout, "another program gets what the guest says"

    def on_a_terminal(*more: str) -> str:
        ours, theirs = pty.openpty()
        subprocess.run([pie, *command, *more], stdout=theirs, check=True)
        os.close(theirs)
        text = os.read(ours, 1 << 16).decode()
        os.close(ours)
        return text

    shown = on_a_terminal()
    assert "Hello," in shown and not {"\x1b", "\x07"} & set(shown)
    assert "\x1b" in on_a_terminal("--escapes")


def test_a_file_or_folder_in_the_place_of_a_name_says_how_to_run_it(run, tmp_path):
    component = tmp_path / "my-app.wasm"
    component.touch()
    assert_fails(run("run", "--dummy", component), f"pie run --path {component}")
    assert_fails(run("run", "--dummy", tmp_path), f"pie build {tmp_path} -o OUT.wasm")
    assert_fails(run("run", "--dummy", "my-app"), "no program 'my-app' is installed; see")


def test_log_file_is_appended_to(run, guest, tmp_path):
    log = tmp_path / "pie.log"
    for _ in range(2):
        run("run", "--dummy", *guest("hello-rust"), "--log", log)
    run("run", "--dummy", *guest("hostile-guest"), "--log", log, "--input", '{"mode": "fail"}')
    lines = [line for line in log.read_text().splitlines() if "compiling" not in line]
    assert len(lines) == 6
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ", line) for line in lines)
    assert "launched hello@0.1.0 as" in lines[0]
    assert lines[1].endswith("ended: ok")
    assert lines[5].endswith("ended: the guest's own error")
    assert_fails(
        run("run", "--dummy", *guest("hello-rust"), "--log", tmp_path / "no" / "log"),
        "cannot write the log file",
    )


# Input.


def test_input_as_json_file_and_standard_input(run, guest, tmp_path):
    hello = ("run", "--dummy", *guest("hello-rust"), "--input")
    file = tmp_path / "input.json"
    file.write_text('{"name": "file"}')
    assert run(*hello, '{"name": "json"}').stdout == "Hello, json!\n"
    assert run(*hello, f"@{file}").stdout == "Hello, file!\n"
    assert run(*hello, "-", stdin='{"name": "pipe"}').stdout == "Hello, pipe!\n"
    done = run(*hello, '{"name": "json"}', "--", "--name=arguments")
    assert done.stdout == "Hello, arguments!\n", (
        "arguments are merged into the input and take precedence"
    )


def test_input_that_is_no_input(run, guest, tmp_path):
    hello = ("run", "--dummy", *guest("hello-rust"), "--input")
    assert_fails(run(*hello, '{"name": '), "--input is not valid JSON: parse error at line 1")
    assert_fails(run(*hello, "-"), "--input is not valid JSON")
    assert_fails(run(*hello, "@" + str(tmp_path / "none")), "cannot read the input file")
    assert_fails(run(*hello, "[1]", "--", "--name", "x"), "--input is not a JSON object")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 200_000 + "]" * 200_000)
    assert_fails(run(*hello, f"@{deep}"), "nested deeper than 512 levels")


def test_input_over_the_limit(run, guest, tmp_path):
    big = tmp_path / "big.json"
    big.write_text(json.dumps({"name": "x" * (17 << 20)}))
    done = run("run", "--dummy", *guest("hello-rust"), "--input", f"@{big}")
    assert_fails(done, "at most 16 MiB")
    assert_fails(run("run", "--dummy", *guest("hello-rust"), "--input", "@/dev/zero"), "16 MiB")


def test_parameters_describe_and_the_program_decides(run, guest):
    complete = ("run", "--dummy", *guest("text-completion-rust"))
    done = run(*complete)
    assert done.returncode == 1
    first, then = done.stderr.splitlines()[:2]
    assert first == "warning: parameter 'prompt' (string) is missing: What to ask the model"
    assert "missing field `prompt`" in then
    done = run(*complete, "--input", '{"prompt": 3}')
    assert done.returncode == 1
    assert "warning: parameter 'prompt' is declared as string, but is 3" in done.stderr
    assert "invalid type: integer `3`" in done.stderr
    done = run(*complete, "--", "--prompt", "3", "--max-tokens", "1")
    assert done.returncode == 0, "a parameter of type string is a text, whatever it looks like"
    assert "warning" not in done.stderr
    done = run(*complete, "--", "--prompt", "x", "--max-tokens", "many")
    assert done.returncode == 1
    assert "warning: parameter 'max_tokens' is declared as int" in done.stderr
    done = run(*complete, "--", "--prompt", "x", "--max-tokens", "1", "--promt", "y")
    assert done.returncode == 0
    assert "warning: the manifest has no parameter 'promt'" in done.stderr


def test_arguments_that_are_not_text(pie, guest):
    command = [pie, "run", "--dummy", *guest("hello-rust"), "--", "--name", b"\xff"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"is not UTF-8" in done.stderr


# Files that are damaged or of another kind.


def test_component_that_is_none(run, tmp_path):
    for content, words in {
        b"": "empty",
        b"hello": "not a WebAssembly component",
        b"\0asm\x01\0\0\0": "core WebAssembly module",
        b"\0asm\x0d\0\x01\0garbage": "not a valid component",
    }.items():
        file = tmp_path / "x.wasm"
        file.write_bytes(content)
        assert_fails(run("run", "--dummy", "--path", file), words)
    assert_fails(run("run", "--dummy", "--path", tmp_path / "none.wasm"), "none.wasm")
    assert_fails(run("run", "--dummy", "--path", tmp_path), "cannot read the component")
    assert_fails(run("run", "--dummy"), "pie run --path OUT.wasm")


def test_manifest_faults_name_their_line(run, guest, tmp_path):
    component = guest("hello-rust")[:2]
    manifest = tmp_path / "Pie.toml"
    manifest.write_text('[package]\nname = "My App"\nversion = "1.0.0"\n')
    done = run("run", "--dummy", *component, "--manifest", manifest)
    assert_fails(done, f"{manifest}:2: the name 'My App'")
    manifest.write_text("[package\n")
    assert_fails(run("run", "--dummy", *component, "--manifest", manifest), f"{manifest}:1: ")
    missing = run("run", "--dummy", *component, "--manifest", tmp_path / "none.toml")
    assert_fails(missing, "cannot read the manifest")
    assert_fails(run("run", "--dummy", *component, "--manifest", tmp_path), "the Pie.toml itself")


def test_manifest_beside_the_component_is_found(run, guest, tmp_path):
    (tmp_path / "hello.wasm").symlink_to(guest("hello-rust")[1])
    assert run("run", "--dummy", "--path", tmp_path / "hello.wasm").stdout == "Hello, world!\n"
    (tmp_path / "Pie.toml").write_text(
        '[package]\nname = "a"\nversion = "1.0.0"\n[parameters]\nneeded = { type = "int" }\n'
    )
    done = run("run", "--dummy", "--path", tmp_path / "hello.wasm")
    assert done.stdout == "Hello, world!\n"
    assert done.stderr == "warning: parameter 'needed' (int) is missing\n"


def test_a_type_that_is_not_known_is_a_notice(run, guest, tmp_path):
    manifest = tmp_path / "Pie.toml"
    manifest.write_text(
        '[package]\nname = "a"\nversion = "1.0.0"\n[parameters]\nname = { type = "person" }\n'
    )
    hello = ("run", "--dummy", *guest("hello-rust")[:2], "--manifest", manifest)
    done = run(*hello, "--", "--name", "Ada")
    assert done.stdout == "Hello, Ada!\n"
    assert done.stderr.startswith(f"warning: {manifest}:5: parameter 'name' has an unknown type")
    manifest.write_text(manifest.read_text().replace('{ type = "person" }', '"str"'))
    done = run(*hello, "--", "--name", "42")
    assert (done.stdout, done.stderr) == ("Hello, 42!\n", "")


def test_config_faults_name_their_line(run, guest, tmp_path):
    config = tmp_path / "config.toml"
    hello = ("run", *guest("hello-rust"), "--config", config)
    assert_fails(run(*hello), f"the config file {config} does not exist")
    config.write_text('[runtime]\nallow_fs = "yes"\n')
    assert_fails(run(*hello), f"{config}:2: 'allow_fs' must be true or false")
    config.write_text('[[model]]\nname = "tiny"\n[model.driver]\ntype = "dummy"\n')
    assert run(*hello).stdout == "Hello, world!\n", "a config with a model needs no --dummy"
    config.write_text('[[model]]\ndriver.type = "tpu"\n')
    assert_fails(run(*hello), f"{config}:2: 'type' must be")


def test_config_of_the_user(run, guest, tmp_path):
    (tmp_path / "config.toml").write_text("[runtime]\nworker_threads = -1\n")
    done = run("run", "--dummy", *guest("hello-rust"), env={"PIE_HOME": str(tmp_path)})
    assert_fails(done, "config.toml:2: 'worker_threads'")


def test_folders_that_are_not_there(run, guest, tmp_path):
    env = {"TMPDIR": str(tmp_path / "no"), "PIE_CACHE": "/proc/no", "PIE_HOME": "/proc/no"}
    done = run("run", "--dummy", *guest("hello-rust"), env=env)
    assert (done.returncode, done.stdout) == (0, "Hello, world!\n"), done.stderr


# Ctrl-C.


class Interrupted:
    """Starts a run and sends it SIGINT as soon as its log contains `log`."""

    def __init__(self, pie, log: Path, moment: str, *arguments, env=None):
        command = [pie, "run", "--dummy", *arguments, "--log", log]
        self.child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        deadline = time.monotonic() + 60
        while not (log.is_file() and moment in log.read_text()):
            assert self.child.poll() is None, self.child.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def end(self) -> tuple[int, str, str, float]:
        """Returns exit code, stdout, stderr, and how long the exit took."""
        start = time.monotonic()
        self.child.send_signal(signal.SIGINT)
        stdout, stderr = self.child.communicate(timeout=60)
        return self.child.returncode, stdout, stderr, time.monotonic() - start


@pytest.mark.parametrize("mode", ["loop", "sleep", "wait_for_pass_forever"])
def test_ctrl_c_stops_whatever_it_does(pie, guest, tmp_path, mode):
    program = guest("hostile-guest")
    arguments = (*program, "--debug", "--input", json.dumps({"mode": mode}))
    run = Interrupted(pie, tmp_path / "log", "launched", *arguments)
    code, stdout, stderr, took = run.end()
    assert code == 130, stderr
    assert took < 2
    assert stdout == ""
    assert stderr == (
        "\nstopped\ncounts: instances=0 handles=0 contexts=0 pages=0 snapshots=0 topics=0\n"
    )


def test_ctrl_c_quietly(pie, guest, tmp_path):
    arguments = (*guest("hostile-guest"), "--quiet", "--input", '{"mode": "sleep"}')
    code, stdout, stderr, _ = Interrupted(pie, tmp_path / "log", "launched", *arguments).end()
    assert (code, stdout, stderr) == (130, "", "")


# Two compilers: the first run uses quick code, the next run optimised code.


def test_first_run_starts_on_quick_code_and_keeps_good_code(pie, guest, run, tmp_path):
    configuration.write(tmp_path / "home", '[runtime]\nwasm_compiler = "both"\n')
    env = {"PIE_CACHE": str(tmp_path / "cache"), "PIE_HOME": str(tmp_path / "home")}
    program = guest("hello-typescript")

    def kept() -> list[Path]:
        return list((tmp_path / "cache" / "code").glob("*/*.cwasm"))

    # Ctrl-C ends a run that is still compiling, although no inferlet is running yet.
    early = Interrupted(pie, tmp_path / "early", "compiling", *program, env=env)
    code, stdout, stderr, took = early.end()
    assert (code, stdout, stderr) == (130, "", "")
    assert took < 2

    log = tmp_path / "log"
    command = [pie, "run", "--dummy", *program, "--log", log]
    with subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout.readline() == "Hello, world!\n"
        assert not kept(), "the run answered before the optimised code was ready"
        assert child.wait(timeout=240) == 0
        assert child.stderr.read() == f"{OPTIMISING}\n", "it says what it waits for"
    assert len(kept()) == 1
    assert log.read_text().count("compiling") == 1

    again = run(*command[1:], env=env)
    assert (again.returncode, again.stdout) == (0, "Hello, world!\n")
    assert log.read_text().count("compiling") == 1, "the second run compiled nothing"


def test_ctrl_c_after_the_answer_skips_the_good_code(pie, guest, tmp_path):
    env = {"PIE_CACHE": str(tmp_path / "cache")}
    program = guest("hello-typescript")
    run = Interrupted(pie, tmp_path / "log", "ended: ok", *program, env=env)
    code, stdout, stderr, took = run.end()
    assert (code, stdout, stderr) == (0, "Hello, world!\n", "")
    assert took < 2


# The other commands.


def test_help_shows_examples(run):
    for arguments, example in {
        ("--help",): "pie run -p my-app.wasm",
        (): "pie new my-app",
        ("new", "--help"): "pie new bot --ts",
        ("build", "--help"): "pie build my-app -o my-app.wasm",
        ("run", "--help"): "pie run --path hello.wasm",
    }.items():
        done = run(*arguments)
        assert done.returncode == 0
        assert example in done.stdout
    assert "Exit codes: 0, 1 for an error, 130" in run("run", "--help").stdout
    commands = run("--help").stdout.partition("Subcommands:")[2]
    assert "\n  run         Run an inferlet in its own engine and print" in commands
    assert "Exit codes" not in commands, "the list has one line for each command"
    assert re.fullmatch(
        r"pie \d+\.\d+\.\d+ \(commit ([0-9a-f]{12}|unknown), devices: cpu.*\)\n",
        run("--version").stdout,
    )


def test_mistyped_commands(run):
    for arguments in (("rnu",), ("run", "--dumy"), ("run", "--path")):
        done = run(*arguments)
        assert done.returncode == 1
        assert "Run with --help for more information." in done.stderr


def test_doctor_is_well_here(run):
    done = run("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no problems found" in done.stdout
    assert "\x1b" not in done.stdout


def test_memory_that_models_do_not_fit_into_is_named(run, tmp_path):
    (tmp_path / "config.toml").write_text("[runtime]\nmemory_mb = 400\n")
    done = run("doctor", env={"PIE_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "✗ memory" in done.stdout, done.stdout
    assert "MiB" in done.stdout
    (tmp_path / "config.toml").write_text("[runtime]\nmemory_mb = 2048\n")
    done = run("doctor", env={"PIE_HOME": str(tmp_path)})
    assert "✓ memory             of 2.0 GiB, models take" in done.stdout, done.stdout


def test_doctor_names_a_broken_config(run, tmp_path):
    (tmp_path / "config.toml").write_text("[runtime\n")
    done = run("doctor", env={"PIE_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert f"{tmp_path}/config.toml:1" in done.stdout
    assert "no problems found" not in done.stdout


def test_new_and_build_are_bakerys(run, tmp_path):
    project = tmp_path / "my-app"
    assert run("new", "my-app", "--cpp", "-o", project).returncode == 0
    assert (project / "Pie.toml").is_file()
    done = run("build", tmp_path / "nowhere", "-o", tmp_path / "x.wasm")
    assert done.returncode == 1
    assert "does not exist" in done.stderr
