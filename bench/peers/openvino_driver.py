"""Measures OpenVINO GenAI in its own environment: openvino_driver.py MODEL THREADS

Loading takes seconds, so one process measures many times: each line `prefill LENGTH` or `decode
BATCH CONTEXT STEPS` on standard input is answered with one JSON line. Prompts are random tokens, so
that the prefix cache never hits. Decoding is greedy and timed from the first new token to the last.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np
import openvino as ov
import openvino_genai as genai

VOCABULARY = 49_152
FIRST_PLAIN = 20  # smaller token ids have special meanings


class Driver:
    def __init__(self, model: str, threads: int) -> None:
        start = time.perf_counter()
        self._pipeline = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
        self.load_ms = (time.perf_counter() - start) * 1e3
        self._random = np.random.default_rng(42)
        self._generate(1, 64, 4)  # the first pass compiles the model

    def prefill(self, length: int) -> float:
        seconds, _ = self._generate(1, length, 1)
        return length / seconds

    def decode(self, batch: int, context: int, steps: int) -> float:
        # The prefill yields the first new token.
        _, times_ms = self._generate(batch, context, steps + 1)
        return batch * (len(times_ms) - 1) * 1e3 / (times_ms[-1] - times_ms[0])

    def _generate(self, batch: int, length: int, new: int) -> tuple[float, list[float]]:
        config = genai.GenerationConfig()
        config.max_new_tokens = new
        config.ignore_eos = True
        config.do_sample = False
        ids = self._random.integers(FIRST_PLAIN, VOCABULARY, (batch, length), dtype=np.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        start = time.perf_counter()
        result = self._pipeline.generate(inputs, config)
        seconds = time.perf_counter() - start
        if [len(tokens) for tokens in result.tokens] != [new] * batch:
            sys.exit("openvino driver: OpenVINO generated another number of tokens than asked for")
        return seconds, list(result.perf_metrics.raw_metrics.m_new_token_times)


def main() -> None:
    driver = Driver(sys.argv[1], int(sys.argv[2]))
    print(json.dumps({"load_ms": driver.load_ms}), flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        tps = getattr(driver, what)(*map(int, numbers))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"tps": tps, "rss_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
