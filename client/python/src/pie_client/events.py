"""What a process can say."""

from __future__ import annotations

from enum import Enum


class Event(Enum):
    """The kind of an event. The value beside it is a text, of a File its bytes."""

    Stdout = "stdout"
    """What was printed, or sent by `session.send`."""
    Stderr = "stderr"
    Message = "message"
    File = "file"
    Return = "return"
    """The last one of a process that ended well: what its `main` returned."""
    Error = "error"
    """The last one of a process that did not."""

    @property
    def is_last(self) -> bool:
        return self in (Event.Return, Event.Error)
