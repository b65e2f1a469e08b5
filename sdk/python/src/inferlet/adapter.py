"""LoRA adapters."""

from __future__ import annotations

from typing import Any

from wit_world.imports import adapter as wit

from .errors import PieError, ask
from .model import Model


class Adapter:
    """A LoRA adapter of a model. Its slot is freed with the object or at the end of a `with`."""

    def __init__(self, raw: Any) -> None:
        self._handle = raw

    @property
    def _raw(self) -> Any:
        if self._handle is None:
            raise PieError("this adapter was closed by the end of its with block")
        return self._handle

    @classmethod
    def create(cls, model: Model, name: str) -> Adapter:
        """A new adapter."""
        return cls(ask(wit.Adapter.create, model._raw, name))

    @classmethod
    def open(cls, model: Model, name: str) -> Adapter | None:
        """An existing adapter, or None."""
        raw = wit.Adapter.open(model._raw, name)
        return None if raw is None else cls(raw)

    def fork(self, new_name: str) -> Adapter:
        """A copy under a new name."""
        return Adapter(self._raw.fork(new_name))

    def save(self, path: str) -> None:
        """Writes the weights as a folder of the PEFT package, below /scratch or /data."""
        ask(self._raw.save, path)

    def load(self, path: str) -> None:
        """Reads a folder of the PEFT package, below /scratch or /data."""
        ask(self._raw.load, path)

    def destroy(self) -> None:
        """Removes the adapter from the engine, whoever else has it open."""
        self._raw.destroy()

    def __enter__(self) -> Adapter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            raw, self._handle = self._handle, None
            raw.__exit__(None, None, None)
