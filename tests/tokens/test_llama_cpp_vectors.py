"""llama.cpp's own test vocabularies give the tokens that its tests expect."""

from __future__ import annotations

from pathlib import Path

import pytest

from tokens import fetch, tool

SEPARATOR = "\n__ggml_vocab_test__\n"
NAMES = (
    "bert-bge",
    "command-r",
    "deepseek-coder",
    "deepseek-llm",
    "falcon",
    "gemma-4",
    "gpt-2",
    "llama-bpe",
    "llama-spm",
    "mpt",
    "phi-3",
    "qwen2",
    "qwen35",
    "refact",
    "starcoder",
)


@pytest.fixture(scope="module")
def folder() -> Path:
    return fetch.llama_cpp_vocabularies()


def test_every_vocabulary_with_vectors_is_here(folder: Path):
    found = {path.name for path in folder.glob("*.gguf.inp")}
    assert found == {f"ggml-vocab-{name}.gguf.inp" for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_vectors(folder: Path, name: str):
    file = folder / f"ggml-vocab-{name}.gguf"
    lines = Path(f"{file}.out").read_text().splitlines()
    expected = [[int(token) for token in line.split()] for line in lines]
    texts = Path(f"{file}.inp").read_bytes().decode().split(SEPARATOR)[: len(expected)]
    assert len(texts) >= 46
    _, answers = tool.ours(file, texts)
    wrong = [
        f"{text!r}: {answer.get('plain', answer)}, not {want}"
        for text, answer, want in zip(texts, answers, expected, strict=True)
        if answer.get("plain") != want
    ]
    assert not wrong, "\n".join(wrong)
    for text, answer in zip(texts, answers, strict=True):
        assert answer["streamed"] == answer["text"]
        if name not in ("bert-bge", "qwen2", "command-r"):  # these normalise the text first
            assert answer["text"] == text
