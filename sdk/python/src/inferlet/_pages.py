"""The pages of one context, counted in the SDK.

Only this SDK changes the counts, so it reads them once (`sync`) and keeps them up to date. A step
would otherwise need four more host calls. Invariants: `tokens <= reserved * page_size`,
and between passes fewer than `page_size` tokens are uncommitted, drafts just kept not counted.
"""

from __future__ import annotations

from typing import Any

from .errors import PieError, ask


class _Released:
    """Takes the place of a context's handle after it was dropped; using the handle would trap."""

    def __getattr__(self, _: str) -> Any:
        raise PieError("this context was released")


RELEASED = _Released()


class Pages:
    __slots__ = ("committed", "page_size", "raw", "reserved", "tokens")

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.page_size: int = raw.tokens_per_page()
        self.sync()

    def sync(self) -> None:
        """Reads the counts from the host."""
        self.committed: int = self.raw.committed_page_count()
        self.reserved: int = self.raw.working_page_count()
        self.tokens: int = self.raw.working_page_token_count()

    @property
    def seq_len(self) -> int:
        return self.committed * self.page_size + self.tokens

    def missing(self, count: int) -> int:
        """Pages to reserve before `count` more tokens fit."""
        return max(0, -(-(self.tokens + count) // self.page_size) - self.reserved)

    def reserve(self, count: int) -> None:
        """Makes room for `count` more tokens."""
        pages = self.missing(count)
        if pages:
            ask(self.raw.reserve_working_pages, pages)
            self.reserved += pages

    def forget(self, count: int) -> None:
        """Drops the last `count` working tokens."""
        if count:
            self.raw.truncate_working_page_tokens(count)
            self.tokens -= count

    def commit(self, held_back: int = 0) -> None:
        """Makes full working pages immutable, so that others can share them; not those with the
        last `held_back` tokens, which may still be forgotten."""
        full = (self.tokens - held_back) // self.page_size
        if full > 0:
            ask(self.raw.commit_working_pages, full)
            self.committed += full
            self.reserved -= full
            self.tokens -= full * self.page_size

    def roll_back(self, tokens: int) -> None:
        """After a pass that failed or was cancelled: back to `tokens` working tokens."""
        if self.raw is RELEASED:  # nothing is left to restore
            return
        self.sync()
        self.forget(self.tokens - tokens if self.tokens > tokens else 0)
