"""The state, the clock and the resources of the make-believe engine.

Time is virtual: polling moves the clock to the next event. Resources keep the rules of the real
thing and say when they are broken: dropped once, children before parents, no use of what was
dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

PAGE = 4
IM_START, IM_END = 256, 257
VOCAB = 258
PASS_NS = 1_000_000
QUEUE_LIMIT = 100
STOP_AFTER = 24  # the model ends its turn at this length

state = SimpleNamespace()


def reset() -> None:
    state.now = 0
    state.live = Counter()
    state.calls = defaultdict(int)
    state.queues = defaultdict(deque)
    state.subscriptions = defaultdict(list)
    state.inbox = deque()
    state.client_gone = False
    state.sent = []
    state.snapshots = {}
    state.fail_next = None
    state.chains_off = False
    state.drafted = []
    state.schemas = []
    state.document = None
    state.begins_thinking = False
    state.options = {}
    state.bids = []
    state.expected = []


@dataclass(frozen=True)
class Err(Exception):
    value: Any


@dataclass
class Ok:
    value: Any


class Resource:
    def __init__(self, parent: Resource | None = None) -> None:
        self.dropped = False
        self.children = 0
        self.parent = parent
        if parent is not None:
            parent.use()
            parent.children += 1
        state.live[type(self).__name__] += 1

    def use(self) -> None:
        assert not self.dropped, f"{type(self).__name__} was dropped"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.use()
        assert not self.children, f"{type(self).__name__} dropped before its children"
        self.dropped = True
        state.live[type(self).__name__] -= 1
        if self.parent is not None:
            self.parent.children -= 1

    def __del__(self) -> None:
        if not self.dropped and not self.children:
            self.__exit__()


class Pollable(Resource):
    """Ready once `due()` (a time in ns, or None for never) has come."""

    def __init__(self, due: Any, parent: Resource | None = None) -> None:
        super().__init__(parent)
        self.due = due

    def ready(self) -> bool:
        self.use()
        state.calls["ready"] += 1
        due = self.due()
        return due is not None and due <= state.now

    def block(self) -> None:
        poll([self])


def poll(pollables: list[Pollable]) -> list[int]:
    assert pollables, "poll of an empty list traps"
    state.calls["poll"] += 1
    for pollable in pollables:
        pollable.use()
    dues = [pollable.due() for pollable in pollables]
    times = [due for due in dues if due is not None]
    assert times, "the inferlet would wait for ever"
    state.now = max(state.now, min(times))
    return [i for i, due in enumerate(dues) if due is not None and due <= state.now]


class Future(Resource):
    """A value that `take()` gives once `due()` has come."""

    def __init__(self, due: Any, take: Any, parent: Resource | None = None) -> None:
        super().__init__(parent)
        self.due, self.take = due, take

    def pollable(self) -> Pollable:
        return Pollable(self.due, self)

    def get(self) -> Any:
        self.use()
        due = self.due()
        return self.take() if due is not None and due <= state.now else None
