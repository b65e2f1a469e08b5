"""Tokenizes texts with pie-tokens and with Hugging Face's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokens import fetch

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "bin" / "pie-tokens"

_ORACLE = """
import json, sys
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file(sys.argv[1])
tokenizer.no_truncation()
tokenizer.no_padding()
texts = [json.loads(line) for line in sys.stdin]
encoded = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
tokenizer.encode_special_tokens = True
plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
for ids, other in zip(encoded, plain):
    text = tokenizer.decode(ids, skip_special_tokens=True)
    print(json.dumps({"ids": ids, "plain": other, "text": text}))
"""


def ours(file: Path, texts: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Facts about the vocabulary, and one answer per text."""
    assert PROGRAM.is_file(), f"{PROGRAM} is missing: run `make`"
    about, *answers = _ask([PROGRAM, file], texts)
    assert len(answers) == len(texts)
    return about, answers


def hugging_face(file: Path, texts: Sequence[str]) -> list[dict[str, Any]]:
    path = {**os.environ, "PYTHONPATH": str(fetch.tokenizers_package())}
    return _ask([sys.executable, "-c", _ORACLE, file], texts, path)


def _ask(command: list[str | Path], texts: Sequence[str], env=None) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, check=False, env=env
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]
