"""`pie-client` on the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import world

SOURCE = str(world.ROOT / "client/python/src")
MANIFEST = world.MANIFESTS["session"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = world.Server(tmp_path_factory.mktemp("home"), "[auth]\nenabled = true\n")
    key = server.home / "key.pem"
    key.write_text(world.private_text("ed25519", "openssh"))
    server.client_home = tmp_path_factory.mktemp("client")
    for name, value in {"uri": server.uri, "username": "ada", "key": str(key)}.items():
        assert run(server, "config", "set", name, value).returncode == 0
    done = run(server, "install", world.component("session"), "-m", MANIFEST)
    assert (done.returncode, done.stdout) == (0, "session@0.1.0\n"), done.stderr
    yield server
    server.end()


def start(server: world.Server, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pie_client", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCE, "PIE_HOME": str(server.client_home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(server, *arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    process = start(server, *arguments)
    out, err = process.communicate(stdin, timeout=world.LIMIT_S)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def test_ping_and_config(server):
    assert "answered in" in run(server, "ping").stdout
    shown = run(server, "config", "show").stdout
    assert f"uri = {server.uri}" in shown and "username = ada" in shown
    path = Path(run(server, "config", "path").stdout.strip())
    assert path.stat().st_mode & 0o777 == 0o600
    for nowhere in (["ping", "--uri", "ws://127.0.0.1:1"], ["--uri", "ws://127.0.0.1:1", "ping"]):
        done = run(server, *nowhere)
        assert done.returncode == 1 and done.stderr.startswith("error: cannot connect")


def test_submit_shows_everything_where_it_belongs(server, tmp_path):
    files = tmp_path / "files"
    done = run(server, "submit", "session", "--files", files, "--", "--do", "speak")
    assert done.returncode == 0
    assert done.stdout == 'text{"event":"tick","n":3}printed\n\n{"spoken":5}\n'
    assert "complained\n" in done.stderr
    assert (files / "file-1").read_bytes() == b"\x00\x01\xff"
    assert 'text="complained" user="ada"' in (server.home / "server.log").read_text()


def test_submit_installs_what_it_is_given(server):
    component = world.component("session")
    input = json.dumps({"do": "count", "n": 2})
    done = run(server, "submit", "-p", component, "-m", MANIFEST, "--input", input)
    assert done.stdout == "01\n2\n"


def test_submit_of_one_that_fails(server):
    done = run(server, "submit", "session", "--", "--do", "fail")
    assert done.returncode == 1 and "it failed as asked" in done.stderr
    done = run(server, "submit", "nothing")
    assert done.returncode == 1 and "nothing" in done.stderr


def test_lines_of_stdin_are_messages(server):
    done = run(server, "submit", "-i", "session", "--", "--do", "echo", stdin="one\nstop\n")
    assert done.stdout == "one\nstopped\n"


def test_detach_list_attach_abort(server):
    id = run(server, "submit", "session", "--detach", "--", "--do", "forever").stdout.strip()
    assert id in run(server, "list").stdout
    assert json.loads(run(server, "list", "--json").stdout)[0]["process_id"] == id
    attached = start(server, "attach", id[:8])
    deadline = time.monotonic() + 30
    while "attached" not in run(server, "list").stdout and time.monotonic() < deadline:
        pass
    assert run(server, "abort", id[:8]).returncode == 0
    _, err = attached.communicate(timeout=world.LIMIT_S)
    assert attached.returncode == 1 and "cancelled" in err
    assert id not in run(server, "list").stdout


def test_a_daemon_is_listed_restarted_and_closed(server):
    done = run(server, "install", world.component("http"), "-m", world.MANIFESTS["http"])
    assert done.returncode == 0, done.stderr
    id, _, port = run(server, "daemon", "http-echo", "--", "--x", "1").stdout.split()
    assert f"{id}  http-echo@0.1.0  port {port}\n" in run(server, "list").stdout

    def about() -> dict:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/about", timeout=60) as answer:
            return json.load(answer)

    assert (about()["user"], about()["input"]) == ("ada", '{"x": 1}')
    assert run(server, "restart", id).stdout == "http-echo@0.1.0\n"
    assert about()["input"] == '{"x": 1}'
    assert run(server, "abort", id).returncode == 0
    with pytest.raises(urllib.error.URLError):
        about()
    done = run(server, "restart", id)
    assert done.returncode == 1 and "no daemon" in done.stderr


def test_ctrl_c_ends_what_was_submitted(server):
    process = start(server, "submit", "session", "--", "--do", "forever")
    deadline = time.monotonic() + 30
    while not run(server, "list").stdout and time.monotonic() < deadline:
        pass
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=world.LIMIT_S)
    assert process.returncode == 130
    assert not run(server, "list").stdout


def test_the_token_of_a_server_on_this_machine(server):
    token = server.home / f"server-{server.port}.token"
    assert run(server, "ping", "--token-file", token).returncode == 0


@pytest.mark.parametrize(
    ("words", "input"),
    [
        ("--max-tokens 8 --fast", {"max_tokens": 8, "fast": True}),
        ("--name=Bob left 7", {"name": "Bob", "_positional": ["left", 7]}),
        (
            "--a -1 --b +2 --c 1.5 --d .5 --e 1e3",
            {"a": -1, "b": 2, "c": 1.5, "d": 0.5, "e": 1000.0},
        ),
        ("--yes true --no false --version 1.2.3", {"yes": True, "no": False, "version": "1.2.3"}),
        ("--big 18446744073709551615", {"big": 2**64 - 1}),
    ],
)
def test_arguments_become_input_as_those_of_pie_run(words, input):
    code = "import json, sys; from pie_client.arguments import to_input; "
    code += "print(json.dumps(to_input(sys.argv[1:])))"
    command = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == input
