"""Grammars, and matchers that walk them token by token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wit_world.imports import constraints, fallible
from wit_world.imports import inference as wit

from . import _check
from .errors import ask
from .model import Tokenizer


class Grammar:
    """A compiled grammar; `generate(constrain=grammar)` takes it as it is."""

    __slots__ = ("_raw",)

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    @classmethod
    def from_json_schema(cls, s: str | dict[str, Any]) -> Grammar:
        """JSON that conforms to a JSON Schema: its text, or a dict."""
        return cls(ask(wit.Grammar.from_json_schema, _check.schema("s", s)))

    @classmethod
    def json(cls) -> Grammar:
        """Any JSON text."""
        return cls(ask(fallible.json_grammar))

    @classmethod
    def from_regex(cls, p: str) -> Grammar:
        """Text that matches a regular expression."""
        return cls(ask(wit.Grammar.from_regex, _check.text("p", p)))

    @classmethod
    def from_ebnf(cls, g: str) -> Grammar:
        """Text of a Lark or GBNF grammar."""
        return cls(ask(wit.Grammar.from_ebnf, _check.text("g", g)))

    def __str__(self) -> str:
        return self._raw.to_string()


class Matcher:
    """Walks a grammar token by token."""

    __slots__ = ("_raw",)

    def __init__(self, grammar: Grammar, tokenizer: Tokenizer) -> None:
        _check.instance("grammar", grammar, Grammar, "Grammar.from_regex and others")
        _check.instance("tokenizer", tokenizer, Tokenizer, "model.tokenizer()")
        self._raw = ask(fallible.create_matcher, grammar._raw, tokenizer._raw)

    @classmethod
    def _of(cls, raw: Any) -> Matcher:
        matcher = cls.__new__(cls)
        matcher._raw = raw
        return matcher

    def accept_tokens(self, ids: Iterable[int]) -> None:
        """Advances by these ids, all or none. One that the grammar refuses here is a PieError."""
        ask(self._raw.accept_tokens, _check.tokens("ids", ids))

    def next_token_logit_mask(self) -> list[int]:
        """The tokens that may come next: a BRLE mask over the vocabulary. Where the text is
        complete, these are the tokens that end a turn."""
        return self._raw.next_token_logit_mask()

    def fork(self) -> Matcher:
        """Another matcher at the same place of the text."""
        return Matcher._of(ask(constraints.fork, self._raw))

    def rollback(self, n: int) -> None:
        """Takes back the last `n` tokens. A PieError if it has accepted fewer."""
        ask(constraints.rollback, self._raw, _check.whole("n", n))

    def forced_tokens(self) -> list[int]:
        """The tokens that must come next; `[]` where there is a choice."""
        return ask(constraints.forced_tokens, self._raw)

    @property
    def is_terminated(self) -> bool:
        """Whether the text is complete and nothing can follow."""
        return self._raw.is_terminated()

    def reset(self) -> None:
        """Goes back to the beginning of the grammar."""
        self._raw.reset()
