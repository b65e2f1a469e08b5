"""Measures the masks of xgrammar and llguidance along what `pie-structured-bench masks` wrote.

Reads that program's JSON from the standard input. Writes {package: [{compile_ms, warm_us, times_us}
or {error} for each case]}. `times_us` has the times of each mask of one walk after the other.
"""

import json
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

WALKS = 20


def measure(
    case: dict[str, Any], compile_it: Callable[[], Any], start: Callable[[Any], Any]
) -> dict[str, Any]:
    """`start` makes a matcher: (fill a mask, accept a token)."""
    began = time.perf_counter()
    compiled = compile_it()
    fill, accept = start(compiled)
    fill()
    cold = time.perf_counter() - began
    times = []
    for _ in range(WALKS):
        fill, accept = start(compiled)
        for token in case["tokens"]:
            began = time.perf_counter()
            fill()
            times.append((time.perf_counter() - began) * 1e6)
            if not accept(token):
                raise ValueError(f"refuses token {token} of the document")
    began = time.perf_counter()
    start(compiled)
    warm = time.perf_counter() - began
    return {"compile_ms": cold * 1e3, "warm_us": warm * 1e6, "times_us": times}


class Tokens:
    """A vocabulary as llguidance wants it. Texts become bytes: masks do not depend on them."""

    def __init__(self, vocabulary: dict[str, Any]) -> None:
        self.eos_token_id = vocabulary["stops"][0]
        self.bos_token_id = None
        self.tokens = [bytes.fromhex(token) for token in vocabulary["tokens"]]
        self.special_token_ids = [i for i, token in enumerate(self.tokens) if not token]
        self._ids = {token: i for i, token in enumerate(self.tokens)}

    def __call__(self, text: str | bytes) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        return [self._ids[bytes([byte])] for byte in data]


def llguidance_cases(vocabulary: dict[str, Any], cases: list[dict[str, Any]]) -> list[dict]:
    import llguidance
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Tokens(vocabulary)))
    mask = allocate_token_bitmask(1, tokenizer.vocab_size)

    def start(grammar: str) -> tuple[Callable, Callable]:
        matcher = llguidance.LLMatcher(tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return lambda: fill_next_token_bitmask(matcher, mask), matcher.consume_token

    def compile_case(case: dict[str, Any]) -> Any:
        make = llguidance.LLMatcher
        source = case["source"]
        return (
            make.grammar_from_json_schema(source)
            if case["is_schema"]
            else make.grammar_from_regex(source)
        )

    return [attempt(case, lambda case=case: compile_case(case), start) for case in cases]


def xgrammar_cases(vocabulary: dict[str, Any], cases: list[dict[str, Any]]) -> list[dict]:
    name_what_is_absent()
    import xgrammar

    tokens = [bytes.fromhex(token) for token in vocabulary["tokens"]]
    info = xgrammar.TokenizerInfo(
        tokens,
        vocab_type=xgrammar.VocabType.RAW,
        vocab_size=len(tokens),
        stop_token_ids=vocabulary["stops"],
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
    mask = np.full((1, (len(tokens) + 31) // 32), -1, dtype=np.int32)

    def start(compiled: Any) -> tuple[Callable, Callable]:
        matcher = xgrammar.GrammarMatcher(compiled)
        return lambda: matcher.fill_next_token_bitmask(mask), matcher.accept_token

    def compile_case(case: dict[str, Any]) -> Any:
        if case["source"] == "{}":
            return compiler.compile_builtin_json_grammar()
        if case["is_schema"]:
            return compiler.compile_json_schema(case["source"])
        return compiler.compile_regex(case["source"])

    return [attempt(case, lambda case=case: compile_case(case), start) for case in cases]


def attempt(case: dict[str, Any], *arguments: Any) -> dict[str, Any]:
    try:
        return measure(case, *arguments)
    except Exception as error:  # a package may raise anything; then the case is not compared
        return {"error": f"{type(error).__name__}: {error}"}


def name_what_is_absent() -> None:
    """xgrammar imports PyTorch and transformers, but fills masks of NumPy as well."""
    import tvm_ffi  # noqa: F401  it would use PyTorch if it found it, so it comes first

    torch = types.ModuleType("torch")
    torch.__getattr__ = lambda name: np.ndarray  # the types of annotations
    torch.int32 = np.int32
    torch.tensor = lambda value, dtype: np.array(value, dtype=dtype)
    torch.full = lambda shape, value, dtype: np.full(shape, value, dtype=dtype)
    transformers = types.ModuleType("transformers")
    for name in ("LogitsProcessor", "PreTrainedTokenizerBase", "PreTrainedTokenizerFast"):
        setattr(transformers, name, type(name, (), {}))
    sys.modules |= {"torch": torch, "transformers": transformers}


def main() -> None:
    given = json.load(sys.stdin)
    vocabulary, cases = given["vocabulary"], given["cases"]
    results = {
        "llguidance": llguidance_cases(vocabulary, cases),
        "xgrammar": xgrammar_cases(vocabulary, cases),
    }
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
