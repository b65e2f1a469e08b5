"""Renders whole conversations with Jinja, configured as in Hugging Face's transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from tokens import fetch

NOW = datetime(2025, 1, 15, 10, 20, 30, tzinfo=UTC)
SECONDS = int(NOW.timestamp())


@cache
def _environment() -> Any:
    sys.path.insert(0, str(fetch.jinja2_package()))
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %}: the marked text is printed as it is."""

        tags: ClassVar[set[str]] = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            call = self.call_method("_print", [])
            return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _print(self, caller: Any) -> str:
            return caller()

    def raise_exception(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


@cache
def _compiled(source: str) -> Any:
    return _environment().from_string(source)


def render(
    source: str,
    messages: list[dict[str, Any]],
    *,
    tools: list[Any] | None = None,
    cue: bool = False,
    **variables: str,
) -> str | None:
    """The text, or None if the template refuses the conversation."""
    try:
        return _compiled(source).render(
            messages=messages,
            tools=tools,
            documents=None,
            add_generation_prompt=cue,
            **variables,
        )
    except Exception:  # a template can raise anything
        return None


_TOKENS = """
import json, sys
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
for line in sys.stdin:
    encoded = tokenizer.encode(json.loads(line), add_special_tokens=False)
    print(json.dumps(encoded.ids), flush=True)
"""


class HuggingFace:
    """Tokenizes texts with Hugging Face's library, in one process because loading is slow."""

    def __init__(self, tokenizer: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TOKENS, tokenizer],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(fetch.tokenizers_package())},
        )

    def __enter__(self) -> HuggingFace:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def tokens(self, text: str) -> list[int]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(text) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
