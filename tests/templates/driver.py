"""Drives pie-templates."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "bin" / "pie-templates"


class Templates:
    """A running pie-templates, with one tokenizer."""

    def __init__(self, tokenizer: Path) -> None:
        assert PROGRAM.is_file(), f"{PROGRAM} is missing: run `make`"
        self._process = subprocess.Popen(
            [PROGRAM, tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Templates:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"pie-templates ended at {json.dumps(request)[:500]}"
        return json.loads(line)

    def extend(self, before: Iterable[str], turns: list[dict[str, Any]]) -> list[int] | str:
        """The tokens, or the text of the error."""
        answer = self.ask(before=list(before), turns=turns)
        return answer.get("tokens", answer.get("error"))


def system(text: str) -> dict[str, Any]:
    return {"kind": "system", "text": text}


def user(text: str) -> dict[str, Any]:
    return {"kind": "user", "text": text}


def assistant(text: str) -> dict[str, Any]:
    return {"kind": "assistant", "text": text}


def calls(text: str, *made: dict[str, Any]) -> dict[str, Any]:
    """An assistant's turn that calls tools. Each call has a name, arguments and an id."""
    return {"kind": "assistant", "text": text, "tools": [json.dumps(call) for call in made]}


def answer(name: str, text: str, *call_id: str) -> dict[str, Any]:
    return {"kind": "answer", "name": name, "text": text, "tools": [*call_id]}


def tools(*schemas: Any) -> dict[str, Any]:
    return {"kind": "tools", "tools": [json.dumps(schema) for schema in schemas]}


CUE = {"kind": "cue"}
