"""A tokenizer.json gives the same tokens as in Hugging Face's library.

So does the GGUF that a converter makes of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tokens import corpus, fetch, gguf_writer, tool

TEXTS = corpus.texts()

# Package → the name of its pre-tokenizer in a GGUF.
BPE = {
    "gpt2": "gpt-2",
    "llama3_2": "llama-bpe",
    "qwen3": "qwen2",
    "deepseek_v3": "deepseek-v3",
    "mistral_nemo": "tekken",
    "gpt4o": "gpt-4o",
}
OTHERS = ("qwen2_5", "gemma3", "llama2", "yi")


@pytest.mark.parametrize("name", [*BPE, *OTHERS])
def test_tokenizer_json(name: str):
    file = fetch.tokenizer_json(name)
    texts = [*TEXTS, *_with_added_tokens(file)]
    compare(file, tool.hugging_face(file, texts), texts)


@pytest.mark.parametrize("name", BPE)
def test_gguf_made_of_it(name: str, tmp_path: Path):
    file = fetch.tokenizer_json(name)
    texts = [*TEXTS, *_with_added_tokens(file)]
    gguf = bpe_gguf(json.loads(file.read_text()), BPE[name], tmp_path / "vocab.gguf")
    compare(gguf, tool.hugging_face(file, texts), texts)


def test_smollm_cuts_digits_before_words(tmp_path: Path):
    """GPT-2's vocabulary with SmolLM2's pre-tokenizer. SmolLM2's own file is in no registry."""
    tokenizer = json.loads(fetch.tokenizer_json("gpt2").read_text())
    tokenizer["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            tokenizer["pre_tokenizer"],
        ],
    }
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(tokenizer))
    gguf = bpe_gguf(tokenizer, "smollm", tmp_path / "vocab.gguf")
    compare(gguf, tool.hugging_face(file, TEXTS), TEXTS)


@pytest.mark.parametrize("name", ["llama2", "gemma3"])
def test_sentencepiece_by_scores(name: str, tmp_path: Path):
    """Scores for a GGUF file from Hugging Face's merges: an earlier merge has a higher score."""
    file = fetch.tokenizer_json(name)
    tokenizer = json.loads(file.read_text())
    tokens, types = gguf_writer.tables(tokenizer)
    scores = dict.fromkeys([*tokens, *tokenizer["model"]["vocab"]], -1e6)
    for rank, merge in reversed(list(enumerate(gguf_writer.merges(tokenizer)))):
        scores[merge.replace(" ", "", 1)] = -float(rank)
    values = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.scores": [scores[token] for token in tokens],
        "tokenizer.ggml.add_space_prefix": name == "llama2",
    }
    gguf = gguf_writer.write(tmp_path / "vocab.gguf", values)
    # Converters write user-defined tokens (runs of spaces) as they appear in texts. So the token of
    # two spaces matches a written ▁▁ in Hugging Face's library, and two spaces in a GGUF file.
    texts = [text for text in TEXTS if "▁" not in text]
    compare(gguf, tool.hugging_face(file, texts), texts)


def bpe_gguf(tokenizer: dict[str, Any], pre: str, path: Path) -> Path:
    tokens, types = gguf_writer.tables(tokenizer)
    values = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": gguf_writer.merges(tokenizer),
    }
    return gguf_writer.write(path, values)


def compare(file: Path, expected: list[dict[str, Any]], texts: list[str]) -> None:
    _, answers = tool.ours(file, texts)
    wrong = []
    for text, answer, want in zip(texts, answers, expected, strict=True):
        for key in ("ids", "plain", "text"):
            if answer.get(key) != want[key]:
                wrong.append(f"{key} of {text!r}: {answer.get(key, answer)!r}, not {want[key]!r}")
        assert answer["streamed"] == answer["text"]
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:20])


def _with_added_tokens(file: Path) -> list[str]:
    """Texts with added tokens between words, at both ends, and next to each other."""
    added = json.loads(file.read_text())["added_tokens"][:40]
    return [
        text
        for token in added
        for text in (
            token["content"],
            f"a{token['content']}b",
            f" {token['content']}  {token['content']}\n{added[0]['content']}x",
        )
    ]
