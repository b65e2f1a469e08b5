"""Measures what a language costs beside Rust, and how long a fresh program takes to begin.

`sdk_<language>_stepped` and `_chained` are the time per token of a generation on the dummy model ÷
that of the same program in Rust. The programs (bench/sdk) time their own loops; the languages run
in turn, and the median of all rounds counts. `<language>_first_launch_s` is the time from the start
of `pie run` to the first token, without anything in the code cache. `<language>_build_s` is the
time of `pie build` after a line of the program has changed.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIE = ROOT / "build" / "bin" / "pie"
# Folder under bench/sdk → its name in the keys.
LANGUAGES = {"rust": "rust", "cpp": "cpp", "typescript": "js", "python": "python"}
FIRST = {"python": "python", "typescript": "ts"}
SOURCES = {
    "rust": "src/lib.rs",
    "cpp": "main.cpp",
    "typescript": "index.ts",
    "python": "main.py",
}
TURNS, ROUNDS = 9, 3
TOKENS = {"stepped": 1500, "chained": 6000}

AIMS = {
    "sdk_cpp_stepped": ("<=", 1.0),
    "sdk_js_stepped": ("<=", 3.0),
    "sdk_python_stepped": ("<=", 5.0),
    "sdk_cpp_chained": ("<=", 1.1),
    "sdk_js_chained": ("<=", 1.1),
    "sdk_python_chained": ("<=", 1.1),
    "python_first_launch_s": ("<=", 3.0),
    "ts_first_launch_s": ("<=", 3.0),
    "rust_build_s": ("<=", 5.0),
    "cpp_build_s": ("<=", 5.0),
    "ts_build_s": ("<=", 5.0),
    "python_build_s": ("<=", 5.0),
}


def measure() -> dict[str, float]:
    figures: dict[str, float] = {}
    for how, tokens in TOKENS.items():
        order = {"tokens": tokens, "rounds": ROUNDS, "chained": how == "chained"}
        times: dict[str, list[float]] = {language: [] for language in LANGUAGES}
        for language in LANGUAGES:
            _run(language, {**order, "rounds": 1})  # from now on its code is in the cache
        for _ in range(TURNS):
            for language in LANGUAGES:
                times[language] += _run(language, order)
        middle = {language: statistics.median(all_) for language, all_ in times.items()}
        for language, name in LANGUAGES.items():
            figures[f"sdk_{name}_{how}_us"] = middle[language]
            if language != "rust":
                figures[f"sdk_{name}_{how}"] = middle[language] / middle["rust"]
    for language, name in FIRST.items():
        figures[f"{name}_first_launch_s"] = _first_launch(language)
    for language in LANGUAGES:
        name = FIRST.get(language, LANGUAGES[language])
        figures[f"{name}_build_s"] = _build(language)
    return figures


def _command(language: str, order: dict[str, object]) -> list[str | Path]:
    guest = ROOT / "build" / "guests" / f"bench-sdk-{language}.wasm"
    manifest = ROOT / "bench" / "sdk" / language / "Pie.toml"
    return [PIE, "run", "--dummy", "-p", guest, "-m", manifest, "--input", json.dumps(order)]


def _run(language: str, order: dict[str, object]) -> list[float]:
    done = subprocess.run(_command(language, order), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def _first_launch(language: str) -> float:
    order = {"tokens": 4, "rounds": 1, "chained": False, "first": True}
    with tempfile.TemporaryDirectory() as cache:
        began = time.monotonic()
        running = subprocess.Popen(
            [*_command(language, order), "--stdout"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PIE_CACHE": cache},
        )
        with running:
            line = running.stdout.readline() if running.stdout else b""
            took = time.monotonic() - began
            running.kill()  # it would compile once more, for the next launch
    if not line.startswith(b"first"):
        raise RuntimeError(f"bench-sdk-{language} did not send its first token: {line!r}")
    return took


def _build(language: str) -> float:
    """The second of two builds, between which a line has changed."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        shutil.copytree(ROOT / "bench" / "sdk" / language, project)
        command = [PIE, "build", project, "-o", Path(folder) / "out.wasm"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        source = project / SOURCES[language]
        text = source.read_text(encoding="utf-8")
        source.write_text(text.replace("says what one took", "says what a token took"), "utf-8")
        began = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        return time.monotonic() - began
