"""A document that thoughts may precede. The engine knows how the model marks its thoughts."""

from __future__ import annotations

from dataclasses import dataclass

from wit_world.imports import thoughts as wit

from .model import Model, raw_of


@dataclass(frozen=True)
class Thoughts:
    """The marks of a model's reasoning."""

    marks: wit.Format

    @property
    def begun(self) -> bool:
        """Whether the model's turn begins inside its thoughts."""
        return self.marks.begins_inside

    def grammar(self, schema: str) -> str:
        """The Lark grammar of a document of this JSON Schema, after thoughts if there are any."""
        thoughts = "thoughts" if self.begun else "thoughts?"
        return f"start: {thoughts} document\n{self.marks.rules}document: %json {schema}\n"

    def document(self, model: Model, tokens: list[int]) -> str:
        """The text after the thoughts."""
        tokenizer, close_token = model.tokenizer(), self.marks.close_token
        if close_token is not None:
            # No document can contain this token, but the marks around the thoughts may contain it.
            behind = [i + 1 for i, token in enumerate(tokens) if token == close_token]
            end = behind[-1] if behind else 0
            return tokenizer.decode(tokens[end:], skip_special_tokens=True)
        text = tokenizer.decode(tokens, skip_special_tokens=True)
        if self.begun or tokenizer.decode(tokens).startswith(self.marks.open):
            return text.partition(self.marks.close)[2]
        return text


def thoughts_of(model: Model) -> Thoughts | None:
    """The marks of the model's reasoning; None if it has none."""
    marks = wit.marks(raw_of(model))
    return None if marks is None else Thoughts(marks)
