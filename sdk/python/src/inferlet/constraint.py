"""Constraints, which restrict the tokens of a generation.

A *Constraint* has `step(accepted) -> mask`: it learns what was accepted since it was last asked
(nothing at first) and answers with a BRLE mask of what may come next; `[]` restricts nothing. A
*Schema* has `build_constraint(model)`: a description that becomes a constraint with the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from . import _check, brle
from .grammar import Grammar, Matcher
from .model import Model, raw_of


@runtime_checkable
class Constraint(Protocol):
    """Anything with a `step` like this one restricts a generation."""

    def step(self, accepted: list[int]) -> list[int]:
        """Takes the tokens accepted since the last call, none at first. Returns the BRLE mask of
        the next position; `[]` restricts nothing."""
        ...


@runtime_checkable
class Schema(Protocol):
    """A description of the text that becomes a constraint for one model."""

    def build_constraint(self, model: Model) -> Constraint:
        """The constraint for this model."""
        ...


class GrammarConstraint:
    """A matcher as a constraint. The engine can apply it by itself: no mask enters the program."""

    __slots__ = ("_matcher", "name")

    def __init__(self, matcher: Matcher, name: str = "grammar") -> None:
        _check.instance("matcher", matcher, Matcher, "Matcher(grammar, tokenizer)")
        self._matcher = matcher
        self.name = name
        """The name of this constraint in errors."""

    @classmethod
    def from_grammar(cls, g: Grammar, model: Model) -> GrammarConstraint:
        """Restricts the text to a compiled grammar."""
        raw_of(model)
        _check.instance("g", g, Grammar, "Grammar.from_regex and others")
        return cls(Matcher(g, model.tokenizer()))

    @classmethod
    def from_json_schema(cls, s: str | dict[str, Any], model: Model) -> GrammarConstraint:
        """Restricts the text to JSON of a JSON Schema: its text, or a dict. A wrong schema is a
        PieError."""
        raw_of(model)
        return cls(Matcher(Grammar.from_json_schema(s), model.tokenizer()), "JSON schema")

    @classmethod
    def json(cls, model: Model) -> GrammarConstraint:
        """Restricts the text to any valid JSON."""
        raw_of(model)
        return cls(Matcher(Grammar.json(), model.tokenizer()), "JSON")

    @classmethod
    def from_regex(cls, p: str, model: Model) -> GrammarConstraint:
        """Restricts the text to a regular expression, matched as a whole. A wrong pattern is a
        PieError."""
        raw_of(model)
        return cls(Matcher(Grammar.from_regex(p), model.tokenizer()), "regular expression")

    @classmethod
    def from_ebnf(cls, g: str, model: Model) -> GrammarConstraint:
        """Restricts the text to a grammar in Lark's EBNF or in GBNF. A wrong grammar is a
        PieError."""
        raw_of(model)
        return cls(Matcher(Grammar.from_ebnf(g), model.tokenizer()), "EBNF grammar")

    @property
    def is_terminated(self) -> bool:
        """Whether the text is complete and nothing can follow."""
        return self._matcher.is_terminated

    def step(self, accepted: list[int]) -> list[int]:
        """Advances the matcher and returns the next mask. Tokens that the grammar forbids are a
        PieError."""
        if accepted:
            self._matcher.accept_tokens(accepted)
        return self._matcher.next_token_logit_mask()


@dataclass(frozen=True)
class AnyJson:
    """Any valid JSON."""

    def build_constraint(self, model: Model) -> GrammarConstraint:
        """The constraint for this model."""
        return GrammarConstraint.json(model)


@dataclass(frozen=True)
class JsonSchema:
    """JSON that conforms to a JSON Schema."""

    schema: str | dict[str, Any]
    """The JSON Schema: its text, or a dict."""

    def __post_init__(self) -> None:
        _check.schema("schema", self.schema)

    def build_constraint(self, model: Model) -> GrammarConstraint:
        """The constraint for this model. A wrong schema is a PieError."""
        return GrammarConstraint.from_json_schema(self.schema, model)


@dataclass(frozen=True)
class Regex:
    """Text that matches a regular expression."""

    pattern: str
    """The regular expression."""

    def __post_init__(self) -> None:
        _check.text("pattern", self.pattern)

    def build_constraint(self, model: Model) -> GrammarConstraint:
        """The constraint for this model. A wrong pattern is a PieError."""
        return GrammarConstraint.from_regex(self.pattern, model)


@dataclass(frozen=True)
class Ebnf:
    """Text of a grammar in Lark's EBNF (or GBNF)."""

    source: str
    """The text of the grammar."""

    def __post_init__(self) -> None:
        _check.text("source", self.source)

    def build_constraint(self, model: Model) -> GrammarConstraint:
        """The constraint for this model. A wrong grammar is a PieError."""
        return GrammarConstraint.from_ebnf(self.source, model)


def as_constraint(name: str, given: Any, model: Model) -> Any:
    """A constraint, from a constraint, a schema or a grammar. Errors call it `name`."""
    if isinstance(given, Grammar):
        return GrammarConstraint.from_grammar(given, model)
    if hasattr(given, "build_constraint"):
        return given.build_constraint(model)
    if hasattr(given, "step"):
        return given
    raise TypeError(
        f"{name} must be a Constraint (it has step(accepted)), a Schema (it has "
        "build_constraint(model), such as JsonSchema and Regex) or a Grammar, not a value of type "
        f"{type(given).__name__}"
    )


def matcher_of(constraint: Any) -> Matcher | None:
    """The matcher that is the whole constraint, if it is one."""
    return constraint._matcher if type(constraint) is GrammarConstraint else None


def name_of(constraint: Any) -> str:
    """The name of a constraint in errors."""
    return (
        constraint.name if isinstance(constraint, GrammarConstraint) else type(constraint).__name__
    )


def is_complete(constraints: list[Any]) -> bool:
    """Whether the text is complete: all grammars say so. One that has ended before allows the end
    only."""
    grammars = [each for each in constraints if isinstance(each, GrammarConstraint)]
    return bool(grammars) and all(grammar.is_terminated for grammar in grammars)


def next_mask(constraints: list[Any], static: list[int], accepted: list[int]) -> list[int]:
    """Tells every constraint what was accepted and ANDs what they and the static mask allow."""
    mask = static
    for constraint in constraints:
        allowed = constraint.step(accepted)
        if allowed:
            if type(constraint) is not GrammarConstraint:
                allowed = _check.mask("the mask of step()", allowed)
            mask = brle.intersect(mask, allowed) if mask else allowed
    return mask
