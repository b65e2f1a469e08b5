"""The kinds of events of a process."""

from __future__ import annotations

from enum import Enum


class Event(Enum):
    """The kind of an event. Its value is a string, or bytes for a File."""

    Stdout = "stdout"
    """Text that the process printed, or sent with `session.send`."""
    Stderr = "stderr"
    Message = "message"
    File = "file"
    Return = "return"
    """The last event of a process that succeeded. The value is the return value of its `main`."""
    Error = "error"
    """The last event of a process that failed."""

    @property
    def is_last(self) -> bool:
        """Whether the process has ended: no event follows."""
        return self in (Event.Return, Event.Error)
