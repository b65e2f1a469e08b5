"""Common code of the `Event` classes."""

from __future__ import annotations

from typing import Any, cast


class EventType(type):
    """The type of an `Event` class. The kinds of events, which are classes inside of it, count as
    its subclasses: `isinstance(event, Event)` is True for every event."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(cast("type[Any]", type(instance)))

    def __subclasscheck__(cls, subclass: type[Any]) -> bool:
        return super().__subclasscheck__(subclass) or subclass in vars(cls).values()
