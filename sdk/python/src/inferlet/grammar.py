"""Grammars, and matchers that walk them token by token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wit_world.imports import inference as wit

from .errors import ask
from .model import Tokenizer


class Grammar:
    """A compiled grammar; `generate(constrain=grammar)` takes it as it is."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    @classmethod
    def from_json_schema(cls, schema: str) -> Grammar:
        return cls(ask(wit.Grammar.from_json_schema, schema))

    @classmethod
    def json(cls) -> Grammar:
        """Any JSON text."""
        return cls(ask(wit.Grammar.json))

    @classmethod
    def from_regex(cls, pattern: str) -> Grammar:
        return cls(ask(wit.Grammar.from_regex, pattern))

    @classmethod
    def from_ebnf(cls, source: str) -> Grammar:
        """Lark (or GBNF) source."""
        return cls(ask(wit.Grammar.from_ebnf, source))

    def __str__(self) -> str:
        return self._raw.to_string()


class Matcher:
    __slots__ = ("_raw",)

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer) -> None:
        self._raw = ask(wit.Matcher, grammar._raw, tokenizer._raw)

    @classmethod
    def _of(cls, raw: Any) -> Matcher:
        matcher = cls.__new__(cls)
        matcher._raw = raw
        return matcher

    def accept_tokens(self, ids: Iterable[int]) -> None:
        """Advances; an id that the grammar does not allow is an error."""
        ask(self._raw.accept_tokens, list(ids))

    def next_token_logit_mask(self) -> list[int]:
        """BRLE over the vocabulary: what may come next."""
        return self._raw.next_token_logit_mask()

    @property
    def is_terminated(self) -> bool:
        """Has it reached a terminal state?"""
        return self._raw.is_terminated()

    def reset(self) -> None:
        self._raw.reset()
