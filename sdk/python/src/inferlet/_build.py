"""Runs while a component is being built: imports the program, so that the snapshot holds it.

The module that bakery generates calls `program` or `script` and hands `run` to the result. Nothing
here runs again later.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import importlib.util
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import componentize_py_runtime as _host  # pyright: ignore[reportMissingModuleSource]

from . import _async, _entry
from . import _runtime_modules as _runtime_modules  # late imports of the stdlib

if TYPE_CHECKING:
    import io

_runtime: Any = _host

_EventLoopPolicy: Any = vars(asyncio.events)["_AbstractEventLoopPolicy"]
Late = tuple[str, tuple[str, ...], bool]  # module, names taken from it, whether it must exist


def program(name: str, late: Iterable[Late]) -> Callable[[str], str]:
    """`run` for a module that defines `main`."""
    with _importing():
        module = importlib.import_module(name)
        _import_late(late)
    main = getattr(module, "main", None)
    if not callable(main):
        raise TypeError(f"{name}.main is not a function; write `async def main(input):`")
    _settle(module.__file__)
    return partial(_entry.run, main, _takes_input(main))


def handler(name: str, late: Iterable[Late]) -> Callable[[Any, Any], None]:
    """`handle` for a module that defines `handle`: it answers HTTP requests."""
    with _importing():
        module = importlib.import_module(name)
        _import_late(late)
    handle = getattr(module, "handle", None)
    if not callable(handle):
        raise TypeError(
            f"{name}.handle is not a function: write `async def handle(request, respond):`"
        )
    _settle(module.__file__)
    return partial(_entry.answer, handle)


def script(name: str, late: Iterable[Late]) -> Callable[[str], str]:
    """`run` for a module without `main`: its code is kept and runs with every launch."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {name}", name=name)
    path = spec.origin
    with open(path, encoding="utf-8") as file:
        source = file.read()
    code = compile(source, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    with _importing():
        _import_late(late)
    _settle(path)
    return partial(_entry.run_script, code)


@contextmanager
def _importing() -> Generator[None, None, None]:
    """Makes calls of the engine, which is not there yet, fail with a text and a line number instead
    of a trap, and an exit fail instead of ending the build. `asyncio.run` gets this SDK's loop."""

    def refuse(*_: Any) -> Any:
        raise RuntimeError(
            "this asks the engine, but module-level code runs while the component is built; "
            "move it into main()"
        )

    events: Any = asyncio.events
    events._event_loop_policy = _Policy()
    call = _runtime.call_import
    _runtime.call_import = refuse
    try:
        yield
    except SystemExit as end:
        raise RuntimeError(f"the program exits ({end.code}) while it is being imported") from end
    finally:
        _runtime.call_import = call


def _import_late(late: Iterable[Late]) -> None:
    """Imports what the program imports inside functions: at run time there are no files."""
    for name, wanted, required in late:
        try:
            module = importlib.import_module(name)
            for attribute in wanted:
                if not hasattr(module, attribute):
                    importlib.import_module(f"{name}.{attribute}")
        except Exception as error:
            # `from x import y` may ask for a y that appears at run time only.
            if required and isinstance(error, ModuleNotFoundError) and error.name == name:
                raise


def _takes_input(main: Callable[..., Any]) -> bool:
    kinds = {parameter.kind for parameter in inspect.signature(main).parameters.values()}
    return bool(
        kinds
        & {
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            inspect.Parameter.VAR_POSITIONAL,
        }
    )


class _Policy(_EventLoopPolicy):
    """Makes `asyncio.run` in a plain program use the loop of this SDK."""

    _loop: _async.Loop | None = None

    def new_event_loop(self) -> _async.Loop:
        return _async.Loop()

    def set_event_loop(self, loop: Any) -> None:
        self._loop = loop

    def get_event_loop(self) -> Any:
        if self._loop is None:
            raise RuntimeError("there is no event loop here; write `async def main(input)`")
        return self._loop


_print_as_ever = print


def _print(*values: Any, sep: str | None = None, end: str | None = None, **options: Any) -> None:
    """`print` that writes its whole text at once: one `print` is one event of the client."""
    text = (" " if sep is None else sep).join(map(str, values))
    text += "\n" if end is None else end
    options.setdefault("flush", options.get("file") in (None, sys.stdout, sys.stderr))
    _print_as_ever(text, end="", **options)


def _settle(program_file: str | None) -> None:
    """Prepares the state that the snapshot holds besides modules."""
    for stream in (sys.stdout, sys.stderr):
        cast("io.TextIOWrapper", stream).reconfigure(
            line_buffering=True
        )  # nothing else flushes the streams when `run` returns
    builtins.print = _print
    if "urllib.request" in sys.modules:
        importlib.import_module("inferlet.http._urllib").install()
    program_file = program_file or ""
    folder = os.path.dirname(program_file) + "/"
    _entry.sources_at = folder
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        if path.startswith(folder) and path.endswith(".py"):
            _keep_source(path)
    _keep_source(program_file)


def _keep_source(path: str) -> None:
    """Source lines for tracebacks. No modification time: that entry is never checked for files."""
    lines = linecache.getlines(path)
    linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
