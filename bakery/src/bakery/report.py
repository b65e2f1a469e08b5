"""Shows progress: with a spinner on a terminal, with one plain line per step elsewhere.

Progress goes to stderr and results go to stdout, so `bakery build … > log` keeps only results.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TextIO

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_S = 0.1


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colours_wanted(stream: TextIO) -> bool:
    """Returns whether to use colours. A non-empty NO_COLOR turns them off (https://no-color.org)."""
    return _is_terminal(stream) and not os.environ.get("NO_COLOR")


class Style:
    """Wraps text in ANSI styles, or leaves it plain if colours are off."""

    def __init__(self, stream: TextIO):
        self._on = colours_wanted(stream)

    def _wrap(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._on else text

    def bold(self, text: str) -> str:
        return self._wrap("1", text)

    def dim(self, text: str) -> str:
        return self._wrap("2", text)

    def red(self, text: str) -> str:
        return self._wrap("31", text)

    def green(self, text: str) -> str:
        return self._wrap("32", text)

    def yellow(self, text: str) -> str:
        return self._wrap("33", text)


class Report:
    """Reports progress. The owner must call `close`, so that the spinner stops.

    `step` begins a new stage. `detail` shows a line of a tool's output: beside the spinner on a
    terminal, and as a separate line if `verbose`.
    """

    def __init__(self, *, verbose: bool = False, quiet: bool = False, stream: TextIO | None = None):
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self._quiet = quiet
        self._style = Style(self._stream)
        self._spinning = _is_terminal(self._stream) and not verbose and not quiet
        self._lock = threading.Lock()
        self._step = ""
        self._detail = ""
        self._step_began = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self, text: str) -> None:
        """Begins a stage and marks the stage before it as done."""
        if self._quiet:
            return
        if not self._spinning:
            self._write(f"{self._style.dim('·')} {text}\n")
            return
        with self._lock:
            self._finish_line(done=True)
            self._step, self._detail, self._step_began = text, "", time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(target=self._spin, daemon=True)
            self._thread.start()

    def detail(self, text: str) -> None:
        """Shows a line of a tool's output, such as the last line that a compiler printed."""
        text = text.strip()
        if not text or self._quiet:
            return
        if self._verbose:
            self._write(f"    {self._style.dim(text)}\n")
        elif self._spinning:
            with self._lock:
                self._detail = text

    def close(self, *, failed: bool = False) -> None:
        """Stops the spinner and leaves the terminal clean. Safe to call twice."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
            self._stop.clear()
        with self._lock:
            self._finish_line(done=not failed)
            self._step = ""

    def _finish_line(self, *, done: bool) -> None:
        if self._spinning and self._step:
            mark = self._style.green("✓") if done else self._style.red("✗")
            self._write(f"\r\x1b[K{mark} {self._step}\n")

    def _spin(self) -> None:
        frame = 0
        while not self._stop.wait(_TICK_S):
            with self._lock:
                elapsed = time.monotonic() - self._step_began
                line = f"{_FRAMES[frame % len(_FRAMES)]} {self._step} {elapsed:.0f}s"
                room = _columns() - len(line) - 3
                tail = f"  {self._style.dim(self._detail[:room])}" if room > 8 else ""
                self._write(f"\r\x1b[K{line[: _columns() - 1]}{tail}")
            frame += 1

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _columns() -> int:
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return columns or 80  # a terminal that does not know its size reports 0
