import asyncio
import dataclasses
import enum
import math
import os

import pytest
from componentize_py_types import Err

from inferlet import McpError, _check, _entry


def error_of(main, text="{}"):
    with pytest.raises(Err) as caught:
        _entry.run(main, True, text)
    return caught.value.value


def fails_with(main, text="{}"):
    """The message: what stands before the trace."""
    return error_of(main, text).partition("\n")[0]


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


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Spot:
    colour: Colour
    places: set[int]
    heat: float


class Modelled:
    """As pydantic's models have it."""

    def model_dump(self):
        return {"modelled": Spot(Colour.RED, {1}, math.inf)}


def test_what_has_a_json_form():
    own = '{"modelled": {"colour": "red", "places": [1], "heat": null}}'
    assert _entry.run(lambda: Modelled(), False, "") == own
    assert _check.json_text("message", Modelled()) == own
    assert _check.json_text("message", [math.nan, (1, -math.inf), {"a": {2: math.nan}}]) == (
        '[null, [1, null], {"a": {"2": null}}]'
    )
    around = [1]
    around.append(around)
    with pytest.raises(ValueError, match="contains itself"):
        _check.json_text("message", around)


def test_half_a_character_is_an_error_and_no_trap():
    with pytest.raises(ValueError, match=r"message has half a character \(a surrogate\) at 1"):
        _check.json_text("message", "a\ud800")
    with pytest.raises(ValueError, match="text has half a character"):
        _check.text("text", "\udfff")
    assert fails_with(lambda given: "\ud800").startswith("main's result has half a character")
    assert fails_with(lambda given: ["\ud800"]).startswith("main's result has half a character")

    def raises(_):
        raise ValueError("no \ud800")

    assert fails_with(raises) == "no \\ud800"


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
    assert capsys.readouterr().err == "", "the error itself has the trace"


def line_of(code):
    """`file:line` of the line of this file that ends with `code`."""
    with open(__file__) as source:
        lines = source.read().splitlines()
    return f"{__file__}:{next(i for i, text in enumerate(lines, 1) if text.endswith(code))}"


def test_an_error_has_a_trace_of_the_programs_lines():
    def inner():
        try:
            {}["key"]  # the cause
        except KeyError as error:
            raise ValueError("no key") from error

    async def main(_):
        inner()  # the call

    code = 'raise ValueError("no key") from error'
    assert error_of(main).splitlines() == [
        "no key",
        f"    at inner ({line_of(code)}): {code}",
        f"    at main ({line_of('# the call')}): inner()  # the call",
        "caused by KeyError: 'key'",
        f'    at inner ({line_of("# the cause")}): {{}}["key"]  # the cause',
    ]


def test_paths_in_a_trace_begin_at_the_programs_folder(monkeypatch):
    def main(_):
        raise ValueError("bad input")

    monkeypatch.setattr(_entry, "sources_at", os.path.dirname(__file__) + "/")
    assert error_of(main).startswith(f"bad input\n    at main ({os.path.basename(__file__)}:")


def test_the_parts_of_a_group_have_traces():
    async def bad():
        raise ValueError("bad input")  # in a task

    async def main(_):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(bad())

    error = error_of(main)
    assert error.startswith("bad input\n")
    assert f"one of them: ValueError: bad input\n    at bad ({line_of('# in a task')})" in error


def test_a_long_trace_is_cut():
    def main(_):
        main(_)

    lines = error_of(main).splitlines()
    assert "recursion" in lines[0]
    assert len(lines) < 30 and any(line.startswith("    ... ") for line in lines)


def test_the_text_of_an_mcp_error_has_its_code_and_data():
    def refused(_):
        raise McpError(-7, "no", '{"why":1}')

    assert fails_with(refused) == 'no (code -7): {"why":1}'
    error = McpError(-7, "no")
    assert (str(error), error.message, error.data) == ("no (code -7)", "no", None)


def test_an_exit_has_no_trace():
    def leave(_):
        raise SystemExit("no model")

    assert error_of(leave) == "no model"


def test_the_failure_of_a_request_goes_to_stderr(monkeypatch, capsys):
    class Responder:
        def __init__(self, out):
            self.out = out

        def give_up(self):
            self.out.append("given up")

    def handle(_request, _responder):
        raise ValueError("as asked")

    monkeypatch.setattr(_entry.http, "Responder", Responder)
    monkeypatch.setattr(_entry.http, "Request", lambda request: request)
    out = []
    _entry.answer(handle, None, out)
    assert out == ["given up"]
    assert capsys.readouterr().err.startswith("as asked\n    at handle (")


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
