"""Grammars of the make-believe engine: a grammar is a list of texts that it accepts."""

from __future__ import annotations

import json
from typing import Any

from engine_resources import IM_END, Err, Resource, state


class Grammar(Resource):
    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self.texts = texts

    @staticmethod
    def from_regex(pattern: str) -> Grammar:
        if "(" in pattern:
            raise Err("the regular expression is not accepted")
        return Grammar(pattern.split("|"))

    @staticmethod
    def from_ebnf(source: str) -> Grammar:
        """Thoughts, and the document that the schema at the end allows."""
        document = json.dumps(json.loads(source.partition("%json ")[2])["const"])
        texts = ["<think>hm</think>\n" + document, document]
        return Grammar(
            [text.removeprefix("<think>") for text in texts[:1]]
            if "start: thoughts document" in source
            else texts
        )

    @staticmethod
    def from_json_schema(schema: str) -> Grammar:
        known = json.loads(schema)
        state.schemas.append(known)
        return Grammar([json.dumps(known.get("const", state.document))])


class Matcher(Resource):
    def __init__(self, grammar: Grammar, tokenizer: Any) -> None:
        super().__init__()
        self.texts = [[*text.encode()] for text in grammar.texts]
        self.taken: list[int] = []

    def copy(self) -> Matcher:
        made = Matcher.__new__(Matcher)
        Resource.__init__(made)
        made.texts, made.taken = self.texts, self.taken.copy()
        return made

    def next(self) -> set[int]:
        at = len(self.taken)
        begun = [text for text in self.texts if text[:at] == self.taken]
        return {text[at] if at < len(text) else IM_END for text in begun}

    def accept_tokens(self, tokens: list[int]) -> None:
        before = len(self.taken)
        for token in tokens:
            if token not in self.next():
                del self.taken[before:]
                raise Err(f"token {token} does not fit the grammar")
            self.taken.append(token)

    def next_token_logit_mask(self) -> list[int]:
        mask, end = [], 0
        for token in sorted(self.next()):
            mask += [token - end, 1]
            end = token + 1
        return mask

    def is_terminated(self) -> bool:
        return self.next() == {IM_END}

    def reset(self) -> None:
        self.taken = []


def rollback(matcher: Matcher, count: int) -> None:
    if count > len(matcher.taken):
        raise Err(f"cannot take back {count} tokens")
    del matcher.taken[len(matcher.taken) - count :]


def forced_tokens(matcher: Matcher) -> list[int]:
    ahead, forced = matcher.copy(), []
    while len(ahead.next()) == 1 and not ahead.is_terminated():
        forced += ahead.next()
        ahead.accept_tokens(forced[-1:])
    return forced
