"""The fake engine's model, its tokenizer and its chat template. A token is a byte."""

from __future__ import annotations

from typing import Any

from engine_modules import MODULES
from engine_resources import IM_END, IM_START, VOCAB, Err, Resource, state


class Tokenizer(Resource):
    def special_tokens(self) -> tuple[list[int], list[bytes]]:
        return [IM_START, IM_END], [b"<|im_start|>", b"<|im_end|>"]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        if any(token >= VOCAB for token in tokens):
            raise Err(f"token {max(tokens)} is outside the vocabulary of {VOCAB}")
        names = dict(zip(*self.special_tokens(), strict=True))
        pieces = [names.get(token) or bytes([token]) for token in tokens]
        return b"".join(pieces).decode(errors="replace")


class Model(Resource):
    @classmethod
    def load(cls, name: str) -> Model:
        if name != "dummy":
            raise Err(f"no model {name}; there is dummy")
        return cls()

    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self)


def turn(role: str) -> Any:
    def tokens(_model: Model, message: str) -> list[int]:
        return [IM_START, *f"{role}\n{message}".encode(), IM_END]

    return tokens


def extend(model: Model, before: list[Any], turns: list[Any]) -> list[int]:
    """A chat template that writes its arguments: the kinds of the turns before, then each turn."""
    state.calls["extend"] += 1
    state.before = [kind.name for kind in before]
    state.turns = list(turns)
    tokens: list[int] = []
    for given in turns:
        role = given.kind.name.lower()
        if given.text == "refused" and len(turns) > 1:
            raise Err("these turns do not go together")
        tokens += [IM_START, 97] if role == "cue" else turn(role)(model, given.text)
    return tokens


def set_option(model: Model, name: str, value: str | None) -> None:
    if name == "messages":
        raise Err("the option 'messages' is a variable that the engine sets itself")
    state.options[name] = value


class ChatDecoder(Resource):
    def __init__(self) -> None:
        super().__init__()
        self.text = b""
        self.shown = 0

    def feed(self, tokens: list[int]) -> Any:
        for token in tokens:
            if token == IM_END:
                return MODULES["chat"].Event_Done(self.text.decode(errors="ignore"))
            if token >= 256:
                return MODULES["chat"].Event_Interrupt(token)
            self.text += bytes([token])
        text = self.text.decode(errors="ignore")
        delta, self.shown = text[self.shown :], len(text)
        return MODULES["chat"].Event_Delta(delta)

    def reset(self) -> None:
        self.text, self.shown = b"", 0


class ThoughtDecoder(Resource):
    """Thoughts stand between <think> and </think>. A batch of tokens is either all thoughts or all
    answer.
    """

    def feed(self, tokens: list[int]) -> Any:
        wit, text = MODULES["reasoning"], bytes(tokens)
        if state.begins_thinking and not text.startswith(b"<think>"):
            text = b"<think>" + text
        if not text.startswith(b"<think>"):
            return wit.Event_Delta("")
        return wit.Event_Complete("a") if text.endswith(b"</think>") else wit.Event_Start()
