"""Commands for operators of a server: config, driver, completion, inferlet, run NAME."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import PIE, ROOT

HELLO = ROOT / "build" / "guests" / "hello-rust.wasm"
MANIFEST = ROOT / "inferlets" / "hello" / "rust" / "Pie.toml"


@pytest.fixture
def pie(tmp_path: Path):
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PIE, *arguments],
            env={"PIE_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_config_from_nothing(pie, tmp_path):
    assert pie("config", "check").returncode == 0, "a config file is optional"
    assert pie("config", "init").returncode == 0
    assert pie("config", "init").returncode == 1, "init does not overwrite a config"
    assert pie("config", "check").returncode == 0
    assert pie("config", "set", "server.port", "9000").returncode == 0
    assert pie("config", "set", "model.0.hf_repo", "/models/a.gguf").returncode == 0
    assert pie("config", "set", "auth.enabled", "true").returncode == 0
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    assert config["server"]["port"] == 9000
    assert config["model"][0]["hf_repo"] == "/models/a.gguf"
    assert config["auth"]["enabled"] is True
    assert "9000" in pie("config", "show").stdout
    assert "9000" in pie("check").stdout


@pytest.mark.parametrize(
    ("key", "value"),
    [("server.port", "70000"), ("server.port", "many"), ("model.5.name", "x"), ("server", "1")],
)
def test_a_wrong_value_changes_nothing(pie, tmp_path, key, value):
    pie("config", "init")
    before = (tmp_path / "config.toml").read_text()
    done = pie("config", "set", key, value)
    assert done.returncode == 1 and done.stderr
    assert (tmp_path / "config.toml").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.toml"]


def test_an_unknown_key_is_refused_by_every_command(pie, tmp_path):
    done = pie("config", "set", "auth.enable", "true")
    said = "unknown key auth.enable; did you mean auth.enabled?"
    assert done.returncode == 1 and said in done.stderr
    assert not (tmp_path / "config.toml").exists()
    (tmp_path / "config.toml").write_text("[auth]\nenable = true\n")
    for command in (["check"], ["serve", "--dummy", "--port", "0"], ["run", "--dummy", "hello"]):
        done = pie(*command)
        assert done.returncode == 1, command
        assert f"config.toml:2: {said}" in done.stderr, command


def test_both_forms_of_models(pie, tmp_path):
    for text in (
        '[[model]]\nname = "a"\n[model.driver]\ntype = "dummy"\n[[model]]\nname = "b"\n',
        '[model.a]\nhf_repo = "x"\n[model.b]\nhf_repo = "y"\n',
    ):
        file = tmp_path / "other.toml"
        file.write_text(text)
        assert pie("check", file).returncode == 0
    file.write_text("[server]\nport = true\n")
    done = pie("check", file)
    assert done.returncode == 1 and ":2:" in done.stderr


def test_drivers(pie):
    assert {line.split()[0] for line in pie("driver", "list").stdout.splitlines()} == {
        "cpu",
        "cuda",
        "dummy",
    }


def test_installed_programs_run_by_name(pie):
    done = pie("run", "--dummy", "hello")
    assert done.returncode == 1 and "hello" in done.stderr
    assert pie("inferlet", "add", HELLO, "-m", MANIFEST).returncode == 0
    assert pie("run", "--dummy", "hello", "--", "--name", "Ada").stdout == "Hello, Ada!\n"
    assert pie("run", "--dummy", "hello@0.1.0").stdout == "Hello, world!\n"
    assert pie("run", "--dummy", "hello@9.0.0").returncode == 1
    assert "hello@0.1.0" in pie("inferlet", "list").stdout
    assert pie("inferlet", "add", MANIFEST, "-m", MANIFEST).returncode == 1, (
        "a manifest is not a component"
    )
    assert pie("inferlet", "remove", "hello").returncode == 0
    assert pie("inferlet", "remove", "hello").returncode == 1


def test_completion_knows_every_command(pie):
    script = pie("completion", "bash").stdout
    complete = (
        f"{script}\nCOMP_WORDS=(pie auth ''); COMP_CWORD=2; _pie; echo ${{COMPREPLY[@]}}\n"
        "COMP_WORDS=(pie serve --mo); COMP_CWORD=2; _pie; echo ${COMPREPLY[@]}\n"
        "COMP_WORDS=(pie ru); COMP_CWORD=1; _pie; echo ${COMPREPLY[@]}\n"
    )
    done = subprocess.run(["bash", "-c", complete], capture_output=True, text=True, check=True)
    auth, flag, run = done.stdout.splitlines()
    assert {"add", "remove", "list"} <= set(auth.split())
    assert (flag, run) == ("--monitor", "run")
    assert pie("completion", "zsh").stdout.startswith("#compdef pie")
    assert "-a serve" in pie("completion", "fish").stdout
    assert pie("completion", "tcsh").returncode == 1


@pytest.mark.parametrize(
    "command", ["serve", "auth", "inferlet", "config", "driver", "completion", "run"]
)
def test_help_teaches_by_example(pie, command):
    text = pie(command, "--help").stdout
    assert f"pie {command}" in text
