"""Contexts of the fake engine: lists of tokens, in pages that are committed or not."""

from __future__ import annotations

from engine_chat import Model
from engine_resources import PAGE, Err, Resource, state


class Context(Resource):
    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.committed: list[int] = []
        self.working: list[int] = []
        self.pages = 0

    @classmethod
    def create(cls, model: Model) -> Context:
        return cls(model)

    @classmethod
    def open(cls, model: Model, name: str) -> Context:
        if name not in state.snapshots:
            raise Err(f"no snapshot is named '{name}'")
        context = cls(model)
        context.committed, context.working, context.pages = state.snapshots[name]
        context.working = context.working.copy()
        return context

    @classmethod
    def take(cls, model: Model, name: str) -> Context:
        context = cls.open(model, name)
        del state.snapshots[name]
        return context

    @classmethod
    def delete(cls, model: Model, name: str) -> None:
        if state.snapshots.pop(name, None) is None:
            raise Err(f"no snapshot is named '{name}'")

    def fork(self) -> Context:
        self.save("fork")
        return Context.take(self.parent, "fork")

    def save(self, name: str) -> None:
        self.use()
        state.snapshots[name] = (self.committed.copy(), self.working.copy(), self.pages)

    def snapshot(self) -> str:
        self.save("auto")
        return "auto"

    def destroy(self) -> None:
        self.use()

    def tokens_per_page(self) -> int:
        return PAGE

    def committed_page_count(self) -> int:
        return len(self.committed) // PAGE

    def working_page_count(self) -> int:
        return self.pages

    def working_page_token_count(self) -> int:
        return len(self.working)

    def reserve_working_pages(self, n: int) -> None:
        self.pages += n

    def commit_working_pages(self, n: int) -> None:
        assert len(self.working) >= n * PAGE, "only full pages can be committed"
        self.committed += self.working[: n * PAGE]
        del self.working[: n * PAGE]
        self.pages -= n

    def truncate_working_page_tokens(self, n: int) -> None:
        assert 0 < n <= len(self.working), f"cannot truncate {n} of {len(self.working)}"
        del self.working[-n:]

    def release_pages(self, n: int) -> None:
        if n > self.pages:
            raise Err(f"cannot release {n} of {self.pages} working pages")
        self.pages -= n

    def truncate(self, n: int) -> None:
        """Truncation may reach back into committed pages."""
        left = (self.committed + self.working)[: len(self.committed) + len(self.working) - n]
        full = min(len(self.committed), len(left)) // PAGE
        self.pages += len(self.committed) // PAGE - full
        self.committed, self.working = left[: full * PAGE], left[full * PAGE :]

    def suspend(self) -> None:
        self.use()
