"""Running tools, the cache folder, and locks."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from bakery import toolchain
from bakery.report import Report

_QUIET = Report(quiet=True)


def _python(code: str, tmp_path, **more):
    return toolchain.run([sys.executable, "-c", code], cwd=tmp_path, report=_QUIET, **more)


def test_both_streams_and_the_status_are_kept(tmp_path):
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = _python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_much_output_on_both_streams_does_not_block(tmp_path):
    code = "import sys\nfor _ in range(20000): print('o' * 20); print('e' * 20, file=sys.stderr)"
    done = _python(code, tmp_path)
    assert len(done.stdout) == len(done.stderr) == 20000 * 21


def test_a_command_that_does_not_exist_is_a_status(tmp_path):
    done = toolchain.run(["no-such-tool-anywhere"], cwd=tmp_path, report=_QUIET)
    assert done.returncode == toolchain.NOT_FOUND
    assert "no-such-tool-anywhere" in done.stderr


def test_the_environment_is_laid_over_ours(tmp_path, monkeypatch):
    monkeypatch.setenv("GONE", "1")
    code = "import os; print(os.environ.get('NEW'), os.environ.get('GONE'))"
    assert _python(code, tmp_path, env={"NEW": "2", "GONE": None}).stdout == "2 None\n"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PIE_CACHE": "own", "XDG_CACHE_HOME": "xdg"}, "own/x"),
        ({"XDG_CACHE_HOME": "xdg"}, "xdg/pie/x"),
        ({"HOME": "home"}, "home/.cache/pie/x"),
    ],
)
def test_where_the_cache_is(tmp_path, monkeypatch, variables, expected):
    monkeypatch.delenv("PIE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert toolchain.cache_dir("x") == tmp_path / expected
    assert (tmp_path / expected).is_dir()


def test_a_lock_is_held_by_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setenv("PIE_CACHE", str(tmp_path))
    inside = 0
    most = 0

    def work():
        nonlocal inside, most
        with toolchain.lock("shared"):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_ctrl_c_ends_the_tool_too(tmp_path):
    """An interrupted build exits with 130 and leaves neither its tool nor a file behind."""
    (tmp_path / "Pie.toml").write_text('[package]\nname = "a"\nversion = "0.1.0"\n')
    script = f"""
import signal, sys, types
from pathlib import Path
import bakery.cli
from bakery import toolchain

# SIGINT may be ignored where these tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

def build(project, out, *, debug, report):
    tool = "import os, time; open('tool.pid', 'w').write(str(os.getpid())); time.sleep(60)"
    toolchain.run([sys.executable, "-c", tool], cwd=Path({str(tmp_path)!r}), report=report)

toy = types.SimpleNamespace(NAME="toy", TITLE="Toy", missing=lambda: [], build=build)
bakery.cli.language_of = lambda *_: toy
out = {str(tmp_path / "a.wasm")!r}
sys.exit(bakery.cli.main(["build", {str(tmp_path)!r}, "--rust", "-o", out]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.PIPE,
        text=True,
    )
    pid_file = tmp_path / "tool.pid"
    deadline = time.monotonic() + 20
    while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Pie.toml", "tool.pid"]
