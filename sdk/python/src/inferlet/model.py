"""Loaded models and their tokenizers."""

from __future__ import annotations

from typing import Any

from wit_world.imports import fallible
from wit_world.imports import model as wit
from wit_world.imports import runtime as wit_runtime
from wit_world.imports import templates as wit_templates

from . import _check
from .errors import ask


class Tokenizer:
    """Text to token ids and back. `model.tokenizer()` returns it."""

    __slots__ = ("_raw", "_special")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._special: frozenset[int] | None = None

    def encode(self, text: str) -> list[int]:
        """Text to token ids."""
        return ask(fallible.encode, self._raw, _check.text("text", text))

    def decode(self, tokens: list[int], *, skip_special_tokens: bool = False) -> str:
        """Token ids to text. Special tokens become their names, or are left out."""
        tokens = _check.tokens("tokens", tokens)
        if skip_special_tokens:
            if self._special is None:
                self._special = frozenset(self._raw.special_tokens()[0])
            tokens = [token for token in tokens if token not in self._special]
        return ask(self._raw.decode, tokens)

    def vocabs(self) -> tuple[list[int], list[bytes]]:
        """The whole vocabulary: ids, and the bytes of each."""
        return self._raw.vocabs()

    def special_tokens(self) -> tuple[list[int], list[bytes]]:
        """Ids that stand for no text of their own (BOS, EOS, …), and their names."""
        return self._raw.special_tokens()

    def split_regex(self) -> str:
        """The expression that splits text before merges apply."""
        return self._raw.split_regex()


class Model:
    """A model that the engine has loaded."""

    __slots__ = ("_raw", "_tokenizer")

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._tokenizer: Tokenizer | None = None

    @classmethod
    def load(cls, name: str | None = None) -> Model:
        """Binds to a model that the engine has loaded; without a name, to its default one."""
        name = wit_runtime.models()[0] if name is None else _check.text("name", name)
        return cls(ask(wit.Model.load, name))

    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, which is made once."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self._raw.tokenizer())
        return self._tokenizer

    def template_option(self, name: str, value: str | bool | int | float | None) -> None:
        """Sets a variable of the model's chat template, such as `enable_thinking`; None removes it.

        It counts for all turns that are written and all decoders that are made with this model from
        now on; what is written already stays. A variable that the template does not read has no
        effect. Fails on variables that the engine sets itself, and on values that the template
        refuses.
        """
        name = _check.text("name", name)
        ask(wit_templates.set_option, self._raw, name, _check.scalar("value", value))


def raw_of(model: Model) -> Any:
    """The engine's handle of an argument that must be a model."""
    _check.instance("model", model, Model, "Model.load")
    return model._raw
