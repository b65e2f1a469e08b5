"""Contexts that outlive the engine, and `pie snapshot`."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import configuration
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    configuration.write(tmp_path / "home")
    return {"PIE_HOME": str(tmp_path / "home")}


@pytest.fixture
def say(run: Run, guest, home) -> Callable[..., tuple[int, int]]:
    """Runs one turn of a conversation. Returns the numbers of remembered and of saved tokens."""

    def one_turn(prompt: str, *flags: str, env: dict[str, str] = home) -> tuple[int, int]:
        arguments = ("--prompt", prompt, "--max-tokens", "8")
        done = run("run", "--dummy", *guest("remember-rust"), *flags, "--", *arguments, env=env)
        assert done.returncode == 0, done.stderr
        found = re.search(r"\[(\d+) tokens remembered, (\d+) saved\]", done.stdout)
        assert found, done.stdout
        return int(found[1]), int(found[2])

    return one_turn


def files(home: dict[str, str]) -> list[Path]:
    return sorted(Path(home["PIE_HOME"]).rglob("*.snapshot"))


def test_a_conversation_goes_on_in_the_next_process(say):
    known, first = say("My name is Ada.")
    assert known == 0
    known, second = say("What is my name?")
    assert known == first < second


def test_list_export_import_delete(run: Run, say, home, tmp_path):
    assert "no snapshots yet" in run("snapshot", "list", env=home).stdout
    assert json.loads(run("snapshot", "list", "--json", env=home).stdout) == []
    _, tokens = say("Hello.")
    listed = json.loads(run("snapshot", "list", "--json", env=home).stdout)
    assert len(listed) == 1
    entry = listed[0]
    assert (entry["user"], entry["model"], entry["name"]) == ("local", "default", "chat")
    assert entry["tokens"] == tokens
    assert entry["bytes"] == Path(entry["path"]).stat().st_size
    assert f"{tokens} tokens" in run("snapshot", "list", env=home).stdout

    exported = tmp_path / "chat.snapshot"
    done = run("snapshot", "export", "chat", str(exported), env=home)
    assert done.returncode == 0, done.stderr
    assert run("snapshot", "delete", "chat", env=home).returncode == 0
    assert files(home) == []
    gone = run("snapshot", "delete", "chat", env=home)
    assert gone.returncode == 1
    assert "no snapshot is named 'chat'" in gone.stderr
    assert run("snapshot", "export", "chat", str(exported), env=home).returncode == 1

    done = run("snapshot", "import", str(exported), "--user", "ann", "--name", "b/../c", env=home)
    assert done.returncode == 0, done.stderr
    assert "'b/../c' of ann" in done.stdout
    assert run("snapshot", "import", str(exported), env=home).returncode == 0
    known, _ = say("And now?")
    assert known == tokens
    whose = json.loads(run("snapshot", "list", "--json", "--user", "ann", env=home).stdout)
    assert [entry["name"] for entry in whose] == ["b/../c"]


def test_help_teaches(run: Run):
    shown = run("snapshot", "--help").stdout
    for command in ("list", "export", "import", "delete"):
        assert f"pie snapshot {command}" in shown
        assert run("snapshot", command, "--help").returncode == 0


def test_a_damaged_file_is_refused_everywhere(run: Run, guest, say, home, tmp_path):
    say("Hello.")
    path = files(home)[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    out = tmp_path / "out"
    for command in (("export", "chat", str(out)), ("import", str(path))):
        done = run("snapshot", *command, env=home)
        assert done.returncode == 1
        assert "damaged" in done.stderr
    assert not out.exists()
    arguments = (*guest("remember-rust"), "--", "--prompt", "Hi")
    done = run("run", "--dummy", *arguments, env=home)
    assert done.returncode == 1
    assert "damaged" in done.stderr
    path.write_bytes(b"no snapshot")
    assert "problem" in json.loads(run("snapshot", "list", "--json", env=home).stdout)[0]
    missing = run("snapshot", "import", str(tmp_path / "none"), env=home)
    assert missing.returncode == 1
    assert "no such snapshot" in missing.stderr


def test_another_layout_and_another_model_are_refused(run: Run, guest, say, home, tmp_path):
    say("Hello.")
    config = tmp_path / "config.toml"
    arguments = (*guest("remember-rust"), "-c", str(config), "--", "--prompt", "Hi")
    for setting, expected in (
        ("[model.driver.options]\nkv_page_size = 8", "8 tokens a page"),
        ("[model.driver]\nrandom_seed = 7", "another model"),
    ):
        config.write_text(f"[[model]]\n{setting}\n")
        done = run("run", "--dummy", *arguments, env=home)
        assert done.returncode == 1
        assert expected in done.stderr


def test_quotas_are_errors_of_save(run: Run, guest, say, home, tmp_path):
    say("Hello.")
    config = tmp_path / "config.toml"
    configuration.write(tmp_path, "[runtime]\nmax_snapshots = 1\n")
    arguments = ("-c", str(config), "--", "--prompt", "Hi", "--name", "second")
    done = run("run", "--dummy", *guest("remember-rust"), *arguments, env=home)
    assert done.returncode == 1
    assert "1 snapshots already; delete some" in done.stderr
    say("Again.", "-c", str(config))  # replacing a snapshot adds none


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small real file system that fills up soon. Mounting it needs root."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system is not permitted")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_an_error_and_the_old_one_stays(
    run: Run, guest, say, home, tmp_path, small_disk
):
    config = tmp_path / "config.toml"
    configuration.write(tmp_path, f'[runtime]\nsnapshot_dir = "{small_disk}"\n')
    _, saved = say("Hello.", "-c", str(config))
    arguments = ("-c", str(config), "--", "--prompt", "x" * 8000)
    done = run("run", "--dummy", *guest("remember-rust"), *arguments, env=home)
    assert done.returncode == 1
    assert "the disk is full" in done.stderr
    known, _ = say("Still there?", "-c", str(config))
    assert known == saved


def test_killed_while_it_saves_there_is_the_old_or_the_new(pie: Path, guest, say, home):
    """The process is killed at random moments between its launch and just after the save."""
    _, saved = say("Hello.")
    draws = random.Random(1)
    lengths = {saved}
    arguments = ("--prompt", "more", "--max-tokens", "8")
    command = [pie, "run", "--dummy", *guest("remember-rust"), "--", *arguments]
    for _ in range(15):
        process = subprocess.Popen(
            command,
            env={**os.environ, **home},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(draws.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        known, saved = say("and?")
        # A turn is saved completely or not at all.
        assert known in lengths or known > max(lengths)
        lengths |= {known, saved}


def test_two_engines_share_the_folder(pie: Path, guest, home, run: Run):
    def command(name: str) -> list[str | Path]:
        arguments = ("--prompt", "hi", "--max-tokens", "4", "--name", name)
        return [pie, "run", "--dummy", *guest("remember-rust"), "--", *arguments]

    running = [
        subprocess.Popen(
            command(f"chat-{i % 2}"), env={**os.environ, **home}, stdout=subprocess.DEVNULL
        )
        for i in range(6)
    ]
    assert [process.wait() for process in running] == [0] * 6
    listed = json.loads(run("snapshot", "list", "--json", env=home).stdout)
    assert [entry["name"] for entry in listed] == ["chat-0", "chat-1"]
    assert all("problem" not in entry for entry in listed)
