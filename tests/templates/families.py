"""Real templates, and vocabularies to write them with.

The templates are the models' own, out of packages that travel with them. Where no package has the
vocabulary too, a near one gets the special tokens that the model has.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tokens import fetch

from bakery import toolchain


@dataclass(frozen=True)
class Family:
    source: str
    tokenizer: Path
    variables: dict[str, str] = field(default_factory=dict)
    # Properties of the template that limit the conversations.
    knows_tools: bool = True
    folds_system: bool = (
        False  # the template refuses system turns, so we merge them into the user's
    )
    moves: bool = False  # the template writes system text or tools with the last user turn


def jinja(name: str) -> str:
    return (fetch.llama_cpp_templates() / f"{name}.jinja").read_text()


@cache
def _tested_by_llama_cpp() -> str:
    return (fetch.llama_cpp_templates() / "test-chat-template.cpp").read_text()


def tested_by_llama_cpp(name: str) -> str:
    """A template from llama.cpp's tests: the C++ string literal after a name."""
    start = _tested_by_llama_cpp().index(f'/* .name= */ "{name}')
    rest = _tested_by_llama_cpp()[start:]
    literal = re.search(
        r'/\* \.template_str= \*/ (R"(\w*)\((.*?)\)\2"|"(?:\\.|[^"\\])*")', rest, re.S
    )
    assert literal is not None
    if literal.group(3) is not None:
        return literal.group(3)
    return ast.literal_eval(literal.group(1))


def config(name: str) -> dict[str, Any]:
    return json.loads(fetch.tokenizer_config(name).read_text())


def with_tokens(name: str, special: list[str], folder: Path, *, rstrip: bool = False) -> Path:
    """The tokenizer NAME with more special tokens."""
    tokenizer = json.loads(fetch.tokenizer_json(name).read_text())
    known = {token["content"] for token in tokenizer["added_tokens"]}
    ids = (
        tokenizer["model"]["vocab"].values()
        if isinstance(tokenizer["model"]["vocab"], dict)
        else []
    )
    first = max([*ids, *(token["id"] for token in tokenizer["added_tokens"])]) + 1
    missing = [content for content in special if content not in known]
    tokenizer["added_tokens"] += [
        {
            "id": first + index,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": rstrip,
            "normalized": False,
            "special": True,
        }
        for index, content in enumerate(missing)
    ]
    file = folder / f"{name}-{abs(hash(tuple(special)))}.json"
    file.write_text(json.dumps(tokenizer))
    return file


LLAMA = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
SPM = {"bos_token": "<s>", "eos_token": "</s>"}
GEMMA = {"bos_token": "<bos>", "eos_token": "<eos>"}
DEEPSEEK = {"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>"}
MISTRAL = ["[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]"]
MISTRAL += ["[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]
PHI3 = ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>"]
HARMONY = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"]


def make(name: str, folder: Path) -> Family:
    token = fetch.tokenizer_json
    match name:
        case "qwen2.5":
            return Family(jinja("Qwen-Qwen2.5-7B-Instruct"), token("qwen2_5"))
        case "qwen3":
            return Family(jinja("Qwen-Qwen3-0.6B"), token("qwen3"))
        case "llama3.1":
            return Family(jinja("meta-llama-Llama-3.1-8B-Instruct"), token("llama3_2"), LLAMA)
        case "llama3.2":
            return Family(jinja("meta-llama-Llama-3.2-3B-Instruct"), token("llama3_2"), LLAMA)
        case "mistral-v1":
            source = tested_by_llama_cpp("mistralai/Mistral-7B-Instruct-v0.2 (mistralai 'v1'")
            return Family(source, token("llama2"), SPM, knows_tools=False)
        case "mistral-v3":
            source = tested_by_llama_cpp("Mistral-Large-Instruct-2407 (mistralai 'v3'")
            tokenizer = with_tokens("llama2", MISTRAL, folder)
            return Family(source, tokenizer, SPM, moves=True)
        case "mistral-v7":
            source = tested_by_llama_cpp("mistralai/Mistral-Large-Instruct-2411")
            tokenizer = with_tokens("mistral_nemo", MISTRAL, folder)
            return Family(source, tokenizer, SPM, knows_tools=False)
        case "mistral-nemo":
            source = jinja("mistralai-Mistral-Nemo-Instruct-2407")
            tokenizer = with_tokens("mistral_nemo", MISTRAL, folder)
            return Family(source, tokenizer, SPM, moves=True)
        case "gemma2":
            source = jinja("google-gemma-2-2b-it")
            return Family(source, token("gemma3"), GEMMA, knows_tools=False, folds_system=True)
        case "gemma3":
            source = config("gemma3")["chat_template"]
            return Family(source, token("gemma3"), GEMMA, knows_tools=False)
        case "phi3.5":
            source = jinja("microsoft-Phi-3.5-mini-instruct")
            tokenizer = with_tokens("llama2", PHI3, folder, rstrip=True)
            variables = {"bos_token": "<s>", "eos_token": "<|endoftext|>"}
            return Family(source, tokenizer, variables, knows_tools=False)
        case "phi4":
            special = ["<|im_start|>", "<|im_sep|>", "<|im_end|>"]
            tokenizer = with_tokens("gpt2", special, folder)
            return Family(tested_by_llama_cpp("phi-4"), tokenizer, knows_tools=False)
        case "deepseek-r1":
            source = jinja("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B")
            return Family(source, token("deepseek_v3"), DEEPSEEK, knows_tools=False)
        case "deepseek-v3":
            source = config("deepseek_v3")["chat_template"]
            return Family(source, token("deepseek_v3"), DEEPSEEK, knows_tools=False)
        case "gpt-oss":
            tokenizer = with_tokens("gptoss", HARMONY, folder)
            return Family(jinja("openai-gpt-oss-120b"), tokenizer)
    raise ValueError(name)


NAMES = [
    "qwen2.5",
    "qwen3",
    "llama3.1",
    "llama3.2",
    "mistral-v1",
    "mistral-v3",
    "mistral-v7",
    "mistral-nemo",
    "gemma2",
    "gemma3",
    "phi3.5",
    "phi4",
    "deepseek-r1",
    "deepseek-v3",
    "gpt-oss",
]


def default_model() -> Path:
    """The GGUF file of SmolLM2, which setup put into the cache."""
    return next(toolchain.cache_dir("models").glob("smollm2*/*.gguf"))
