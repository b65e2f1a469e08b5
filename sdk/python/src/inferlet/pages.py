"""The pages of a context, for passes and rollbacks of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wit_world.imports import fallible

from . import _check
from .errors import ask

if TYPE_CHECKING:
    from .context import Context


class RawContext:
    """Page-level operations of a context: `ctx.inner()` returns it. The context stays usable beside
    it."""

    __slots__ = ("_ctx",)

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def reserve_working_pages(self, n: int) -> None:
        """Reserves `n` more working pages. A PieError if there is no room for them."""
        self._change(self._raw.reserve_working_pages, _check.whole("n", n))

    def commit_working_pages(self, k: int) -> None:
        """Commits the first `k` working pages, which must be full. Equal pages are shared then."""
        self._change(self._raw.commit_working_pages, _check.whole("k", k))

    def release_working_pages(self, n: int) -> None:
        """Gives the last `n` working pages back. A PieError if there are fewer."""
        self._change(fallible.release_working_pages, self._raw, _check.whole("n", n))

    def truncate_working_page_tokens(self, n: int) -> None:
        """Drops the last `n` tokens. A PieError if there are fewer."""
        self._ctx._turns.settle()
        self._ctx._cued_at = None
        self._change(fallible.truncate_working_page_tokens, self._raw, _check.whole("n", n))

    def committed_page_count(self) -> int:
        """How many pages are committed."""
        return self._raw.committed_page_count()

    def working_page_count(self) -> int:
        """How many working pages there are."""
        return self._raw.working_page_count()

    def working_page_token_count(self) -> int:
        """How many tokens the working pages hold."""
        return self._raw.working_page_token_count()

    @property
    def _raw(self) -> Any:
        return self._ctx._live()

    def _change(self, call: Any, *args: Any) -> None:
        """Calls the engine; the context's own counts follow."""
        ask(call, *args)
        self._ctx._pages.sync()
