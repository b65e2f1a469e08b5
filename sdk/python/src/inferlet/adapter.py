"""LoRA adapters."""

from __future__ import annotations

from typing import Any, NamedTuple

from wit_world.imports import adapter as wit
from wit_world.imports import adapters

from . import _check
from .errors import PieError, ask
from .model import Model, raw_of

MADE_BY = "Adapter.create or Adapter.open"  # for errors


class AdapterFiles(NamedTuple):
    """The two files of a folder of the PEFT package."""

    config: str
    """The text of adapter_config.json."""
    tensors: bytes
    """The content of adapter_model.safetensors."""


class Adapter:
    """A LoRA adapter of a model. Its handle is released with the object or by `with`."""

    def __init__(self, raw: Any) -> None:
        self._handle = raw

    @property
    def _raw(self) -> Any:
        if self._handle is None:
            raise PieError("this adapter was closed by the end of its with block")
        return self._handle

    @classmethod
    def create(cls, model: Model, name: str) -> Adapter:
        """Creates an adapter without weights."""
        return cls(ask(wit.Adapter.create, raw_of(model), _check.text("name", name)))

    @classmethod
    def open(cls, model: Model, name: str) -> Adapter | None:
        """Returns the adapter of that name, or None. One that cannot be read is a PieError."""
        raw = ask(adapters.open, raw_of(model), _check.text("name", name))
        return None if raw is None else cls(raw)

    @classmethod
    def names(cls, model: Model) -> list[str]:
        """The names of your adapters of the model, in alphabetical order."""
        return list(ask(adapters.names, raw_of(model)))

    def fork(self, new_name: str) -> Adapter:
        """Returns a copy under a new name. A name that is taken is a PieError."""
        return Adapter(ask(adapters.fork, self._raw, _check.text("new_name", new_name)))

    def save(self, path: str) -> None:
        """Writes the weights as a folder of the PEFT package, below /scratch or /data."""
        ask(self._raw.save, _check.text("path", path))

    def load(self, path: str) -> None:
        """Reads a folder of the PEFT package, below /scratch or /data."""
        ask(self._raw.load, _check.text("path", path))

    def export(self) -> AdapterFiles:
        """The files that `save` would write, to send them to the client."""
        files = ask(adapters.export_files, self._raw)
        return AdapterFiles(files.config, bytes(files.tensors))

    def import_(self, config: str, tensors: bytes) -> None:
        """Does what `load` does, with files that a client has sent."""
        config = _check.text("config", config)
        ask(adapters.import_files, self._raw, config, _check.data("tensors", tensors))

    def destroy(self) -> None:
        """Removes the adapter from the engine, even if other inferlets have it open."""
        ask(adapters.destroy, self._raw)

    def __enter__(self) -> Adapter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            raw, self._handle = self._handle, None
            raw.__exit__(None, None, None)
