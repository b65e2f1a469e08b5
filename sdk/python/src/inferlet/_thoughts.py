"""How a model marks its reasoning, as far as a grammar has to know: a document that thoughts may
precede.

The engine's decoder of reasoning knows the marks. It is asked which of the usual ones it takes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from . import reasoning
from .model import Model

_PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|channel>thought", "<channel|>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
)


@dataclass(frozen=True)
class Thoughts:
    """The marks. `begun`: the model's turn begins inside of its thoughts. A mark that is a special
    token has an id."""

    open: str
    close: str
    begun: bool
    open_id: int | None
    close_id: int | None

    def grammar(self, schema: str) -> str:
        """The Lark grammar of a document of this JSON Schema, after thoughts if there are any."""
        begin = json.dumps(self.open) if self.open_id is None else f"<[{self.open_id}]>"
        if self.close_id is None:
            rest = f"rest[suffix={json.dumps(self.close)}]: /(?s:.*)/"
        else:
            rest = f"rest: /(?s:.*)/ <[{self.close_id}]>"
        thoughts = "rest SPACE" if self.begun else f"({begin} rest SPACE)?"
        return (
            f"start: {thoughts} document\n{rest}\n"
            f"SPACE: /[ \\n\\r\\t]{{0,8}}/\ndocument: %json {schema}\n"
        )

    def document(self, model: Model, tokens: list[int]) -> str:
        """The text after the thoughts."""
        if self.close_id is not None:
            end = tokens.index(self.close_id) + 1 if self.close_id in tokens else 0
            return model.tokenizer().decode(tokens[end:], skip_special_tokens=True)
        text = model.tokenizer().decode(tokens, skip_special_tokens=True)
        if self.begun or text.startswith(self.open):
            return text.partition(self.close)[2]
        return text


def thoughts_of(model: Model) -> Thoughts | None:
    """The marks of the model's reasoning; None if it has none, or unusual ones."""
    tokenizer = model.tokenizer()
    ids, names = tokenizer.special_tokens()
    special = {name.decode(errors="replace"): token for token, name in zip(ids, names, strict=True)}

    def tokens_of(mark: str) -> list[int]:
        return [special[mark]] if mark in special else tokenizer.encode(mark)

    inner = tokenizer.encode("a")
    begun = isinstance(reasoning.Decoder(model).feed(inner), reasoning.Event.Start)
    for opening, closing in _PAIRS:
        whole = [*tokens_of(opening), *inner, *tokens_of(closing)]
        if isinstance(reasoning.Decoder(model).feed(whole), reasoning.Event.End):
            return Thoughts(opening, closing, begun, special.get(opening), special.get(closing))
    return None
