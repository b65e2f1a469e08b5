"""The commands, as a user calls them."""

import io

import pytest

from bakery import cli
from bakery.report import Report, colours_wanted


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "bakery create my-app" in said
    assert "bakery build my-app -o my-app.wasm" in said


def test_create_says_what_comes_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["create", "my-app"]) == 0
    said = capsys.readouterr().out
    assert "pie build my-app -o my-app.wasm" in said
    assert "pie run --path my-app.wasm --manifest my-app/Pie.toml" in said


def test_two_languages_at_once_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["create", "my-app", "--rust", "--ts"])
    assert ended.value.code == 2


def test_an_unknown_flag_shows_the_usage_of_its_command(monkeypatch, capsys):
    monkeypatch.setenv("BAKERY_CALLED_BY", "pie")
    with pytest.raises(SystemExit) as ended:
        cli.main(["create", "my-app", "--go"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: pie new ")
    assert said.endswith("pie new: error: unrecognized arguments: --go\n")


def test_a_fault_is_three_lines_and_no_trace(tmp_path, capsys):
    (tmp_path / "Pie.toml").write_text('[package]\nname = "a"\nversion = "1"\n')
    assert cli.main(["build", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "error: version '1' is not a semantic version",
        f"  at {tmp_path / 'Pie.toml'}:3",
        '  hint: write three numbers, such as version = "0.1.0"',
    ]


def test_doctor_lists_every_language(capsys):
    assert cli.main(["doctor"]) in (0, 1)
    said = capsys.readouterr().out
    for title in ("Rust", "Python", "C++"):
        assert title in said


def test_no_colour_when_not_a_terminal_or_not_wanted(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert colours_wanted(_Terminal())
    assert not colours_wanted(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colours_wanted(_Terminal())


def test_progress_off_a_terminal_is_plain_lines():
    stream = io.StringIO()
    report = Report(stream=stream)
    report.step("compiling")
    report.detail("a line of the compiler")
    report.step("linking")
    report.close()
    assert stream.getvalue() == "· compiling\n· linking\n"


def test_progress_on_a_terminal_ends_with_whole_lines(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    stream = _Terminal()
    report = Report(stream=stream)
    report.step("compiling")
    report.step("linking")
    report.close(failed=True)
    report.close()
    assert stream.getvalue() == "\r\x1b[K✓ compiling\n\r\x1b[K✗ linking\n"
