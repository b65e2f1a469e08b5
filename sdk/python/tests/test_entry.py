import asyncio
import dataclasses

import pytest
from componentize_py_types import Err

from inferlet import _entry


def fails_with(main, text="{}"):
    with pytest.raises(Err) as caught:
        _entry.run(main, True, text)
    return caught.value.value


def test_results():
    @dataclasses.dataclass
    class Point:
        x: int

    async def echo(given):
        return given

    assert _entry.run(echo, True, '"plain"') == "plain"
    assert _entry.run(echo, True, '{"a": "é"}') == '{"a": "é"}'
    assert _entry.run(echo, True, "") == "{}"
    assert _entry.run(lambda: Point(1), False, "{}") == '{"x": 1}'


def test_input_that_is_no_json_arrives_as_text():
    assert _entry.run(lambda given: given["input"], True, "hello there") == "hello there"


def test_what_set_return_says_counts_where_main_returns_nothing(monkeypatch):
    monkeypatch.setattr(_entry, "_return_value", None)
    assert _entry.run(lambda: None, False, "") == ""
    assert _entry.run(lambda: _entry.set_return({"a": 1}), False, "") == '{"a": 1}'
    assert _entry.run(lambda: "own", False, "") == "own"


def test_failures_carry_the_message(capsys):
    async def bad(_):
        raise ValueError("bad input")

    async def group(_):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bad(None))

    assert fails_with(bad) == "bad input"
    assert fails_with(group) == "bad input"
    assert fails_with(lambda given: given["name"]) == "KeyError: 'name'"
    assert fails_with(lambda given: object()).startswith("main's result cannot be written as JSON")
    assert "ValueError: bad input" in capsys.readouterr().err


def test_exits():
    def leave(code):
        raise SystemExit(code)

    assert _entry.run(lambda given: leave(0), True, "{}") == ""
    assert fails_with(lambda given: leave("no model")) == "no model"
    assert fails_with(lambda given: leave(3)) == "exit status 3"


def test_scripts_see_the_input_and_may_await():
    import ast

    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    plain = compile("assert input == {'a': 1} and __name__ == '__main__'", "s", "exec", flags)
    waits = compile("import asyncio\nawait asyncio.sleep(0.01)", "s", "exec", flags)
    assert _entry.run_script(plain, '{"a": 1}') == ""
    assert _entry.run_script(waits, "") == ""
