#!/usr/bin/env python3
"""Runs the same inferlets and the same requests on the CPU and on the CUDA device, and compares.

    tests/cuda/compare_devices.py --model FILE [--pie build/bin/pie] [--guests build/guests]

It needs nothing but Python: it is for a machine with a GPU that has no packages. `pie` is built
with CUDA=1, and the guests below are in the folder of guests; --list prints their names. Exits with
1 if something fails or differs.

Devices round differently, so greedy texts may part where two tokens are almost equally likely. The
texts of `pie run` must agree for their first characters, and those of the OpenAI API until the
CPU's likeliest two tokens are closer than a tie.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
AGREE = 40  # characters that texts of `pie run` have in common, if they are as long
TIE = 0.15  # difference of log-probabilities
LIMIT_S = 120
AT_ONCE = 64

PROMPT = "List the first five planets of the solar system in order."
STORY = "Anna is 34 years old and lives in Lisbon, where she works as a baker."
# Guest → its input. The answers are greedy.
GREEDY: dict[str, dict[str, object]] = {
    "hello-rust": {"name": "Ada"},
    "text-completion-rust": {"prompt": PROMPT, "max_tokens": 48, "temperature": 0},
    "jacobi-rust": {"prompt": PROMPT, "max_tokens": 32},
    "windowed-attention-rust": {"prompt": PROMPT, "max_tokens": 32},
    "prompt-cache-rust": {
        "document": STORY,
        "name": "story",
        "question": "Where does Anna live?",
        "max_tokens": 24,
    },
}
# Random answers: they must come, that is all.
RANDOM: dict[str, dict[str, object]] = {
    "parallel-generation-rust": {"prompt": "Tell me about pie.", "n": 8, "max_tokens": 32},
    "best-of-n-rust": {"prompt": "Tell me about pie.", "n": 4, "max_tokens": 16},
}
QUESTIONS = (PROMPT, "What is the capital of France?", "Count from one to ten.")


class Report:
    """Prints what was checked, and counts what failed."""

    def __init__(self) -> None:
        self.failed = 0

    def check(self, what: str, good: bool, detail: str = "") -> None:
        self.failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {what}{': ' + detail if detail else ''}", flush=True)


def config(device: str, model: Path, deterministic: bool = False) -> str:
    """A config file with the model on a device."""
    options = "\n[model.driver.options]\ndeterministic = true\n" if deterministic else ""
    return f'[[model]]\nhf_repo = "{model}"\n[model.driver]\ntype = "{device}"\n{options}'


class Places:
    """Where programs and files are."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.pie: Path = options.pie
        self.guests: Path = options.guests
        self.model: Path = options.model.resolve()
        self.work = work

    def home(self, device: str, deterministic: bool = False) -> Path:
        """A home folder of pie whose config chooses the device."""
        home = self.work / (device + ("-deterministic" if deterministic else ""))
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(config(device, self.model, deterministic))
        return home


def run(places: Places, device: str, guest: str, given: dict[str, object]) -> tuple[bool, str]:
    """Runs a guest by `pie run`. Returns whether it succeeded, and its return value or error."""
    name, _, language = guest.rpartition("-")
    command = [
        places.pie,
        "run",
        "--quiet",
        "--path",
        places.guests / f"{guest}.wasm",
        "--manifest",
        ROOT / "inferlets" / name / language / "Pie.toml",
        "--input",
        json.dumps(given),
    ]
    home = places.home(device)
    done = subprocess.run(
        [*command, "--config", home / "config.toml"],
        env={**os.environ, "PIE_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode == 0, (done.stdout or done.stderr).strip()


def agree(one: str, other: str) -> bool:
    """Whether two greedy texts are the same, or part late."""
    return one == other or (len(one) > AGREE and one[:AGREE] == other[:AGREE])


def compare_runs(places: Places, report: Report) -> None:
    """Every guest by `pie run`, on both devices."""
    for guest, given in GREEDY.items():
        good, cpu = run(places, "cpu", guest, given)
        also_good, gpu = run(places, "cuda", guest, given)
        same = "the same text" if cpu == gpu else f"CPU {cpu[:150]!r}, GPU {gpu[:150]!r}"
        report.check(f"pie run {guest}", good and also_good and agree(cpu, gpu), same)
    for guest, given in RANDOM.items():
        good, gpu = run(places, "cuda", guest, given)
        report.check(f"pie run {guest}", good and len(gpu) > AGREE, "" if good else gpu[:300])


class Server:
    """`pie serve` on a device."""

    def __init__(self, places: Places, device: str, deterministic: bool = False) -> None:
        home = places.home(device, deterministic)
        self.log = (home / "server.log").open("w")
        self.process = subprocess.Popen(
            [places.pie, "serve", "--port", "0", "--config", home / "config.toml"],
            env={**os.environ, "PIE_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        assert self.process.stdout
        first = self.process.stdout.readline()
        found = re.search(r":(\d+)", first)
        if found is None:
            sys.exit(f"pie serve did not start: {first} {(home / 'server.log').read_text()}")
        self.base = f"http://127.0.0.1:{found[1]}/v1"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
            self.log.close()

    def ask(self, route: str, body: dict[str, object]) -> Any:
        """One request; errors of HTTP are raised."""
        request = urllib.request.Request(
            f"{self.base}/{route}",
            json.dumps(body).encode(),
            {"content-type": "application/json", "authorization": "Bearer unused"},
        )
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def chat(self, question: str, **more: object) -> Any:
        """The first choice of a greedy chat completion."""
        messages = [{"role": "user", "content": question}]
        body = {"model": "default", "messages": messages, "max_tokens": 48, "temperature": 0}
        return self.ask("chat/completions", body | more)["choices"][0]

    def text(self, question: str) -> str:
        """A greedy answer."""
        return str(self.chat(question)["message"]["content"])


def parts_at_a_tie(cpu: Any, gpu: Any) -> tuple[bool, str]:
    """Compares two answers with the log-probabilities of their tokens."""
    for place, (ours, theirs) in enumerate(
        zip(cpu["logprobs"]["content"], gpu["logprobs"]["content"], strict=False)
    ):
        if ours["token"] == theirs["token"]:
            continue
        best, second = (top["logprob"] for top in ours["top_logprobs"][:2])
        detail = f"{ours['token']!r}, not {theirs['token']!r}, at token {place}"
        return best - second < TIE, f"{detail}; the CPU's best two differ by {best - second:.3f}"
    return True, "the same text"


def compare_servers(places: Places, report: Report) -> None:
    """The OpenAI API on both devices, alone and with many requests at once."""
    with Server(places, "cpu") as server:
        tops = {"logprobs": True, "top_logprobs": 2}
        cpu = {question: server.chat(question, **tops) for question in QUESTIONS}
        texts = ["A cat sleeps.", "The stock market fell.", "A kitten naps."]
        vectors = _vectors(server, texts)
    with Server(places, "cuda") as server:
        for question in QUESTIONS:
            report.check(
                f"chat: {question}", *parts_at_a_tie(cpu[question], server.chat(question, **tops))
            )
        nearest = [
            sum(a * b for a, b in zip(one, other, strict=True))
            for one, other in zip(vectors, _vectors(server, texts), strict=True)
        ]
        report.check("embeddings", min(nearest) > 0.99, f"cosines {nearest}")
        begin = time.monotonic()
        many = _at_once(server, lambda: server.text(QUESTIONS[1]))
        seconds = time.monotonic() - begin
        report.check(
            f"{AT_ONCE} requests at once",
            all(many),
            f"{len(set(many))} different texts, {seconds:.2f} s",
        )
    with Server(places, "cuda", deterministic=True) as server:
        alone = server.text(PROMPT)
        again = set(_at_once(server, lambda: server.text(PROMPT)))
        report.check(
            f"deterministic: one request and {AT_ONCE} at once", again == {alone}, alone[:60]
        )


def _vectors(server: Server, texts: list[str]) -> list[list[float]]:
    answer = server.ask("embeddings", {"model": "default", "input": texts})
    vectors = [entry["embedding"] for entry in answer["data"]]
    lengths = [math.sqrt(sum(number * number for number in vector)) for vector in vectors]
    return [
        [number / length for number in vector]
        for vector, length in zip(vectors, lengths, strict=True)
    ]


def _at_once(server: Server, ask: Callable[[], str]) -> list[str]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(ask) for _ in range(AT_ONCE)]
        return [one.result() for one in asked]


def main() -> None:
    """Compares both devices."""
    parser = argparse.ArgumentParser(description="Compares the CUDA device with the CPU.")
    parser.add_argument("--model", type=Path, help="a GGUF file or a Hugging Face folder")
    parser.add_argument("--pie", type=Path, default=ROOT / "build/bin/pie")
    parser.add_argument("--guests", type=Path, default=ROOT / "build/guests")
    parser.add_argument("--list", action="store_true", help="print the guests that are needed")
    options = parser.parse_args()
    if options.list:
        print(*GREEDY, *RANDOM)
        return
    if options.model is None:
        parser.error("--model is missing")
    report = Report()
    with tempfile.TemporaryDirectory() as work:
        places = Places(options, Path(work))
        compare_runs(places, report)
        compare_servers(places, report)
    print("all the same" if report.failed == 0 else f"{report.failed} failed or differ")
    sys.exit(report.failed > 0)


if __name__ == "__main__":
    main()
