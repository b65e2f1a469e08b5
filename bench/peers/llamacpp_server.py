"""llama-cpp-python's server as a peer: agents send their whole growing prompt in every turn.

The server's Python code comes from the same package as llama.cpp's sources and runs on the library
that `llamacpp.py` builds from them. Its dependencies are installed into a virtual environment in
the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bakery import toolchain

from . import llamacpp
from .llamacpp import Unavailable

# The dependencies of the package and of its extra `server`.
NEEDS = (
    "uvicorn>=0.22.0",
    "fastapi>=0.100.0",
    "pydantic-settings>=2.0.1",
    "sse-starlette>=1.6.1",
    "starlette-context>=0.3.6",
    "PyYAML>=5.1",
    "typing-extensions>=4.5.0",
    "numpy>=1.20.0",
    "diskcache>=5.6.1",
    "jinja2>=2.11.3",
)
_START_S = 60
_ANSWER_S = 300
# Each word, with the space before it, is one token of the default model.
WORDS = ("the", "house", "water", "light", "paper", "music", "river", "stone", "green", "north")


@dataclass(frozen=True)
class Agents:
    """The time of one run of agents, and the usage that the server reported."""

    seconds: float
    requests: int
    prompt_tokens: int
    said_tokens: int


def run_agents(
    model: Path, threads: int, count: int, prompt: int, tools: int, thought: int, answer: int
) -> Agents:
    """Runs `count` agents at once that do what those of bench/guest do."""
    with serving(model, threads, prompt + tools * (thought + answer) + 2 * thought + 64) as url:
        _complete(url, _words(0, 0, 8), 1)  # warm
        usages: list[list[dict[str, int]]] = [[] for _ in range(count)]
        failures: list[BaseException] = []

        def agent(index: int) -> None:
            try:
                text = _words(index, 0, prompt)
                for turn in range(tools + 1):
                    reply = _complete(url, text, thought)
                    usages[index].append(reply["usage"])
                    if turn < tools:
                        time.sleep(0.05)
                        text += reply["choices"][0]["text"]
                        text += _words(index, prompt + turn * answer, answer)
            except (OSError, ValueError, KeyError) as failure:
                failures.append(failure)

        agents = [threading.Thread(target=agent, args=(index,)) for index in range(count)]
        start = time.monotonic()
        for thread in agents:
            thread.start()
        for thread in agents:
            thread.join()
        seconds = time.monotonic() - start
    if failures:
        raise Unavailable(f"its server did not answer: {failures[0]}")
    every = [usage for of_agent in usages for usage in of_agent]
    return Agents(
        seconds,
        len(every),
        sum(usage["prompt_tokens"] for usage in every),
        sum(usage["completion_tokens"] for usage in every),
    )


def _words(index: int, first: int, count: int) -> str:
    """Words that differ between agents, so that no two prompts begin with the same words."""
    numbers = (index * 977 + place * 131 + index * place for place in range(first, first + count))
    return "".join(f" {WORDS[(number // 7 + number) % len(WORDS)]}" for number in numbers)


def _complete(url: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    body = {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_ANSWER_S) as reply:
        return json.load(reply)


@contextmanager
def serving(model: Path, threads: int, context: int, *more: str) -> Iterator[str]:
    """Starts the server, with further options. Gives its URL."""
    binaries = llamacpp.driver().parent / "build" / "bin"
    sources = next(binaries.parents[1].glob("llama_cpp_python-*"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [_python(), "-m", "llama_cpp.server", "--model", model, "--port", str(port)]
    command += ["--n_threads", str(threads), "--n_threads_batch", str(threads)]
    command += ["--n_ctx", str(context), "--logits_all", "false", "--verbose", "false", *more]
    environment = os.environ | {"PYTHONPATH": str(sources), "LLAMA_CPP_LIB_PATH": str(binaries)}
    log = toolchain.cache_dir("peers") / "llamacpp-server.log"
    with log.open("w") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        url = f"http://127.0.0.1:{port}"
        _await(url, process, log)
        yield url
    finally:
        process.terminate()
        process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/v1/models", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise Unavailable(f"its server did not start; see {log}")


def _python() -> Path:
    """The interpreter of an environment with the dependencies. It is created if it is absent."""
    key = hashlib.sha256(f"{NEEDS} {sys.version}".encode()).hexdigest()[:16]
    home = toolchain.cache_dir("peers") / f"llamacpp-server-{key}"
    with toolchain.lock("peer-llamacpp-server"):
        if not (home / ".complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(parents=True)
            print("peers: llama-cpp-python's server is set up once", flush=True)
            log = home / "install.log"
            llamacpp.run([sys.executable, "-m", "venv", home], log)
            pip = [home / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check"]
            llamacpp.run([*pip, *NEEDS], log)
            (home / ".complete").touch()
    return home / "bin" / "python"
