"""Sessions in every language: the same client gets the same events in the same order."""

from __future__ import annotations

import json
import re

import pytest
from conftest import ROOT, install_once
from raw_client import RawClient

LANGUAGES = ("rust", "python", "typescript", "cpp")


@pytest.fixture(params=LANGUAGES)
def program(request, server, on) -> str:
    """Installs the program of one language and returns its name."""
    name = "session" if request.param == "rust" else f"session-{request.param}"
    manifest = (ROOT / "tests/serve/session" / request.param / "Pie.toml").read_text()

    async def install():
        async with await RawClient.connect(server.uri) as client:
            await install_once(client, f"serve-session-{request.param}", manifest)

    on(install())
    return f"{name}@0.1.0"


def play(server, program: str, what: str, *signals: str, file: bytes | None = None, **more):
    async def talk():
        async with await RawClient.connect(server.uri) as client:
            process = await client.launch(program, json.dumps({"do": what, **more}))
            for text in signals:
                await client.send("signal_process", process_id=process, message=text)
            if file is not None:
                await client.send_file(process, file)
            return await client.until_end(process)

    return talk()


def test_speak(server, on, program):
    events = on(play(server, program, "speak"))
    assert events[0] == ("stdout", "text")
    assert events[1][0] == "stdout" and json.loads(events[1][1]) == {"event": "tick", "n": 3}
    printed = [value for kind, value in events[2:] if kind == "stdout"]
    complained = "".join(value for kind, value in events if kind == "stderr")
    assert (printed, complained) == (["printed\n"], "complained\n")
    assert events[-2] == ("file", b"\x00\x01\xff")
    assert events[-1][0] == "return" and json.loads(events[-1][1]) == {"spoken": 5}


def test_echo(server, on, program):
    events = on(play(server, program, "echo", "a", "ü", "stop"))
    assert events == [("stdout", "a"), ("stdout", "ü"), ("return", "stopped")]


def test_two_waits_get_two_messages(server, on, program):
    events = on(play(server, program, "both", "a", "b"))
    assert events[-1][0] == "return" and json.loads(events[-1][1]) == ["a", "b"]


def test_file(server, on, program):
    data = bytes(range(256)) * 2000
    events = on(play(server, program, "echo-file", file=data))
    assert events == [("file", data), ("return", str(len(data)))]


def test_order(server, on, program):
    events = on(play(server, program, "count", n=2000))
    assert events == [*(("stdout", str(i)) for i in range(2000)), ("return", "2000")]


def test_failure(server, on, program):
    events = on(play(server, program, "fail"))
    # An error that Rust returns has no place; a panic has.
    if program == "session@0.1.0":
        assert events[-1] == ("error", "it failed as asked")
        events = on(play(server, program, "print", end="trap"))
    kind, error = events[-1]
    message, _, trace = error.partition("\n")
    assert (kind, message) == ("error", "it failed as asked")
    # The lines that an error of C++ has passed are on stderr; the event has the message alone.
    if "cpp" in program:
        assert trace == ""
        trace = "".join(value for kind, value in events if kind == "stderr")
    assert re.search(r"(src/lib\.rs|main\.py|index\.ts|main\.cpp):\d+", trace), error


@pytest.mark.parametrize("end", ["return", "fail", "trap", "exit"])
def test_nothing_that_was_printed_is_lost(server, on, program, end):
    """Also what has no newline at its end, however the program ends."""
    events = on(play(server, program, "print", end=end))
    printed = [value for kind, value in events if kind == "stdout"]
    lines = ["one\n", "several\nlines 2\n"]
    # JavaScript has no print without a newline, and C's abort() writes nothing out.
    only_lines = "typescript" in program or ("cpp" in program and end == "trap")
    expected = lines if only_lines else [*lines, "no newline"]
    assert printed == expected
    assert (events[-1] == ("return", "printed")) == (end == "return") or end in LACKING[program]


# Ways to end that a language does not have.
LACKING = {
    "session@0.1.0": (),
    "session-python@0.1.0": ("trap",),
    "session-typescript@0.1.0": ("trap", "exit"),
    "session-cpp@0.1.0": (),
}


def test_the_client_leaves(server, on, program):
    async def talk():
        client = await RawClient.connect(server.uri)
        process = await client.launch(program, json.dumps({"do": "echo"}))
        await client.send("signal_process", process_id=process, message="hello")
        assert await client.event(process) == ("stdout", "hello")
        await client.close()
        async with await RawClient.connect(server.uri) as back:
            await back.until_gone(process)  # or the process could take this client for its own
            await back.ask("attach_process", process_id=process)
            return await back.until_end(process)

    assert on(talk()) == [("return", "the client left")]
