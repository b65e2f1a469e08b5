"""Between the component's `run(input) -> result` and the program's `main`.

bakery generates a module that imports the program and calls `run` or `run_script` here. That
module's imports happen at build time: the component is a snapshot of the interpreter after them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from componentize_py_types import Err

from . import _async, _runtime_modules  # noqa: F401  (what the standard library imports late)

__all__ = ["prepare", "run", "run_script"]

_sources_at = ""


class _Policy(
    asyncio.events._AbstractEventLoopPolicy
    if sys.version_info >= (3, 14)
    else asyncio.AbstractEventLoopPolicy
):
    """So that `asyncio.run` inside a plain program uses our loop."""

    def new_event_loop(self) -> _async.Loop:
        return _async.Loop()


def prepare(sources_at: str) -> None:
    """At build time. `sources_at`: the folder of the program's sources, to shorten tracebacks."""
    global _sources_at
    _sources_at = sources_at
    asyncio.events._event_loop_policy = _Policy()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # nobody flushes for us when `run` returns


def run(main: Callable[..., Any], text: str) -> str:
    """Calls `main` with the parsed input; its result as text. Failures become the WIT error."""
    _wake_up()
    try:
        return _as_text(_complete(main(*_arguments(main, text))))
    except BaseException as error:
        return _fail(error)
    finally:
        _flush()


def run_script(code: Any, text: str) -> str:
    """Runs a program without a `main`: its module's code, with `input` as a global."""
    _wake_up()
    try:
        _complete(eval(code, {"__name__": "__main__", "input": _parse(text)}))
        return ""
    except BaseException as error:
        return _fail(error)
    finally:
        _flush()


def _wake_up() -> None:
    """What the snapshot froze and every run needs afresh: the seed of `random`."""
    if "random" in sys.modules:
        sys.modules["random"].seed()


def _arguments(main: Callable[..., Any], text: str) -> tuple[Any, ...]:
    """The parsed input; nothing for a `main()` that takes none."""
    takes = inspect.signature(main).parameters.values()
    wants_input = any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in takes
    )
    return (_parse(text),) if wants_input else ()


def _parse(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the input is not JSON: {error}") from None


def _complete(result: Any) -> Any:
    if inspect.iscoroutine(result):
        return _async.run(result)
    return result


def _as_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise TypeError(f"main's result cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


# Failures.


def _fail(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return ""
        raise Err(str(error.code)) from None
    _print_traceback(error)
    raise Err(_message(error)) from None


def _message(error: BaseException) -> str:
    """The exception's own words; those of its parts for a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(_message(part) for part in _leaves(error)))
    text = str(error)
    # A KeyError's text is the bare key, and some exceptions have none.
    return (
        f"{type(error).__name__}: {text}".rstrip(": ")
        if isinstance(error, KeyError) or not text
        else text
    )


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for part in group.exceptions:
        if isinstance(part, BaseExceptionGroup):
            yield from _leaves(part)
        else:
            yield part


def _print_traceback(error: BaseException) -> None:
    """To stderr, with paths as in the program's folder, from the program's first frame on."""
    report = traceback.TracebackException.from_exception(error)
    _shorten(report)
    print("".join(report.format()), end="", file=sys.stderr)


def _shorten(report: Any) -> None:
    for part in (report, *(report.exceptions or ())):
        frames = part.stack
        first = next((i for i, f in enumerate(frames) if f.filename.startswith(_sources_at)), 0)
        del frames[:first]
        for frame in frames:
            frame.filename = frame.filename.removeprefix(_sources_at)
        if part is not report:
            _shorten(part)
    for chained in (report.__cause__, report.__context__):
        if chained is not None:
            _shorten(chained)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
