"""`pie chat`: a conversation in the terminal."""

from __future__ import annotations

import os
import signal
import subprocess

import configuration
from conftest import PIE
from raw_client import LIMIT_S


def start(home, *flags: str) -> subprocess.Popen:
    configuration.write(home, "")
    return subprocess.Popen(
        [PIE, "chat", "--dummy", *flags],
        env={**os.environ, "PIE_HOME": str(home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_turns_and_commands(tmp_path):
    chat = start(tmp_path, "--speed", "--system", "You are brief.")
    said, errors = chat.communicate(
        "Hello\nmore \\\nlines\n/system Be kind.\n/speed\nAgain\n/nonsense\n/help\n/exit\n", LIMIT_S
    )
    assert chat.returncode == 0, errors
    assert said.count("tokens/s after") == 1  # the help
    assert said.count(" tokens, ") == 2  # of the two answers before /speed
    assert "unknown command /nonsense" in said


def test_the_end_of_the_input_ends_it(tmp_path):
    chat = start(tmp_path)
    said, errors = chat.communicate("Hello\n", LIMIT_S)
    assert chat.returncode == 0 and said.strip(), errors


def test_an_unknown_model(tmp_path):
    chat = start(tmp_path, "--model", "nothing")
    _, errors = chat.communicate("Hello\n", LIMIT_S)
    assert chat.returncode == 1 and "nothing" in errors


def test_ctrl_c_without_an_answer_leaves(tmp_path):
    chat = start(tmp_path, "--speed")
    chat.stdin.write("Hello\n")
    chat.stdin.flush()
    while " tokens, " not in chat.stdout.readline():
        assert chat.poll() is None
    chat.send_signal(signal.SIGINT)
    assert chat.wait(LIMIT_S) == 130
