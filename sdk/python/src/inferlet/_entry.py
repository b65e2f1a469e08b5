"""Between the component's `run(input) -> result` and the program: JSON in, JSON out, failures."""

from __future__ import annotations

import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from componentize_py_types import Err

from . import _async, _check, _json, http
from .errors import Refused

sources_at = ""  # the folder of the program's files; traces are shown from there on

_FIRST_FRAMES, _LAST_FRAMES = 16, 4  # the innermost and outermost frames that a trace shows


def run(main: Callable[..., Any], takes_input: bool, text: str) -> str:
    """Calls `main` with the parsed input and returns its result as text. A failure becomes the WIT
    error."""
    return _guarded(lambda: _returned(_complete(main(_parse(text)) if takes_input else main())))


def run_script(code: Any, text: str) -> str:
    """Runs a program without a `main`: its module's code, with `input` as a global."""

    def work() -> str:
        _complete(eval(code, {"__name__": "__main__", "input": _parse(text)}))
        return _returned(None)

    return _guarded(work)


def answer(handle: Callable[..., Any], request: Any, out: Any) -> None:
    """Calls `handle` with a request of `wasi:http` and the place for its response. A failure before
    the response begins becomes status 500; a later one cuts the response off."""
    responder = http.Responder(out)

    def work() -> str:
        _complete(handle(http.Request(request), responder))
        return ""

    try:
        _guarded(work)
    except Refused as failure:
        print(failure.value, file=sys.stderr)  # the client of an HTTP request is not told
    finally:
        responder.give_up()


def _guarded(work: Callable[[], str]) -> str:
    """Turns every exception into `Err`. Any other would trap and tell the client nothing."""
    if "random" in sys.modules:
        sys.modules["random"].seed()  # its state was frozen: all runs would draw the same
    try:
        return work()
    except SystemExit as end:
        if end.code in (None, 0):
            return ""
        code = end.code
        raise Err(f"exit status {code}" if isinstance(code, int) else _sayable(code)) from None
    except BaseException as error:
        raise Err(_sayable(_message(error) + _trace(error))) from None
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


_return_value: Any = None


def set_return(value: Any) -> None:
    """Sets the return value of a program that has no `main`, or whose `main` returns None. The last
    call counts."""
    global _return_value
    _return_value = value


def _returned(result: Any) -> str:
    """The text of what the program returns; empty if it returns nothing."""
    value = _return_value if result is None else result
    return "" if value is None else _as_text(value)


def _parse(text: str) -> Any:
    """The input: JSON, or else `{"input": text}`."""
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError:
        return {"input": text}


def _complete(result: Any) -> Any:
    """Runs a coroutine to its end: calling an `async def main` only begins it."""
    return _async.run(result) if inspect.iscoroutine(result) else result


def _as_text(result: Any) -> str:
    if isinstance(result, str):
        return _check.text("main's result", result)
    try:
        return _check.text("main's result", _json.dumps(result))
    except TypeError as error:
        raise TypeError(f"main's result cannot be written as JSON: {error}") from None


def _sayable(text: Any) -> str:
    """A text that UTF-8 can write: what it cannot is escaped."""
    return str(text).encode(errors="backslashreplace").decode()


def _message(error: BaseException) -> str:
    """The text of an exception; for a group, the texts of its parts."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[Any]", error)
        return "; ".join(dict.fromkeys(_message(part) for part in _leaves(group)))
    text = str(error)
    if isinstance(error, KeyError) or not text:  # the text is the bare key, or nothing
        return f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for part in group.exceptions:
        if isinstance(part, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[Any]", part))
        else:
            yield part


def _trace(error: BaseException) -> str:
    """The program's lines that the exception has passed, innermost first, and those of the
    exceptions that it came from. Each line begins with a newline."""
    report = traceback.TracebackException.from_exception(error)
    return "".join(f"\n{line}" for line in _trace_lines(report))


def _trace_lines(report: traceback.TracebackException) -> Iterator[str]:
    notes = cast("Any", report).__notes__
    if isinstance(notes, (list, tuple)):
        yield from map(str, cast("Iterable[Any]", notes))
    frames = _frames(report.stack)
    left_out = len(frames) - _FIRST_FRAMES - _LAST_FRAMES
    if left_out > 1:
        frames[_FIRST_FRAMES:-_LAST_FRAMES] = [f"    ... {left_out} more"]
    yield from frames
    for part in report.exceptions or ():
        yield f"one of them: {_headline(part)}"
        yield from _trace_lines(part)
    if report.__cause__ is not None:
        yield f"caused by {_headline(report.__cause__)}"
        yield from _trace_lines(report.__cause__)
    elif report.__context__ is not None and not report.__suppress_context__:
        yield f"while handling {_headline(report.__context__)}"
        yield from _trace_lines(report.__context__)


def _headline(report: traceback.TracebackException) -> str:
    """The type and the message of an exception."""
    return next(iter(report.format_exception_only()), "").rstrip("\n")


def _frames(stack: traceback.StackSummary) -> list[str]:
    """The frames from the program's first one on, without those of the SDK, innermost first. Paths
    are relative to the program's folder."""
    sdk = os.path.dirname(_frames.__code__.co_filename) + "/"
    first = next((i for i, f in enumerate(stack) if f.filename.startswith(sources_at)), 0)
    shown: list[str] = []
    for frame in reversed(stack[first:]):
        if frame.filename.startswith(sdk):
            continue
        at = f"{frame.filename.removeprefix(sources_at)}:{frame.lineno}"
        shown.append(f"    at {frame.name} ({at})" + (f": {frame.line}" if frame.line else ""))
    return shown
