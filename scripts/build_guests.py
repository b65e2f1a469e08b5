#!/usr/bin/env python3
"""Builds the inferlets of this tree into build/guests/. Unchanged inferlets are not built again.

    build_guests.py                     builds all of them
    build_guests.py hello-rust …        builds the named ones
    build_guests.py --under bench       builds those of one folder
    build_guests.py --list              prints their names

A guest is a folder with a Pie.toml under inferlets/, sdk/conformance/, tests/ or bench/. Its name
is its path: inferlets/hello/rust is hello-rust, sdk/conformance/cpp is conformance-cpp,
tests/hostile/spin is hostile-spin, bench/guest is bench-guest. Built components are also kept in
the cache, under a hash of everything that goes into them, so that another checkout can use them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bakery.errors import BakeryError
from bakery.languages import detect
from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "guests"
# Where `pie serve` finds the inferlets that come with the engine, and which those are.
SHIPPED_DIR = ROOT / "build" / "share" / "pie" / "inferlets"
SHIPPED = ("openai", "chat")
BAKERY = ROOT / "build" / "bin" / "bakery"

# Folder of guests → prefix of their names.
_PLACES = {"inferlets": "", "sdk/conformance": "conformance-", "tests": "", "bench": "bench-"}
_NOT_SOURCE = {"target", "node_modules", "build", "dist", "__pycache__", ".pytest_cache", "tests"}
_NOT_CODE = {".md", ".wasm"}
_LICENCE = "LICENSE"  # each package has a copy
_CACHE_LIMIT_BYTES = 2_000_000_000
_CACHE_KEEP_S = (
    3600  # younger entries are not pruned, because another build may be about to copy them
)


@dataclass(frozen=True)
class Guest:
    """An inferlet of this tree."""

    name: str
    folder: Path

    @property
    def out(self) -> Path:
        return OUT / f"{self.name}.wasm"


@dataclass(frozen=True)
class Outcome:
    """The result of building one guest. `error` is empty if it succeeded."""

    guest: Guest
    how: str = ""
    error: str = ""


def all_guests() -> list[Guest]:
    """Every guest of the tree, sorted by name."""
    guests = []
    for place, prefix in _PLACES.items():
        for manifest in (ROOT / place).rglob("Pie.toml"):
            relative = manifest.parent.relative_to(ROOT / place)
            if not _NOT_SOURCE & set(relative.parts):
                guests.append(Guest(prefix + "-".join(relative.parts), manifest.parent))
    return sorted(guests, key=lambda guest: guest.name)


def make(guest: Guest) -> Outcome:
    """Builds one guest if it is out of date."""
    try:
        key = _key_of(guest)
    except BakeryError as error:
        return Outcome(guest, error=error.message)
    stamp = guest.out.with_suffix(".key")
    if guest.out.is_file() and stamp.is_file() and stamp.read_text() == key:
        return Outcome(guest, "unchanged")
    kept = cache_dir("guests") / f"{key}.wasm"
    if kept.is_file():
        _copy(kept, guest.out)
        os.utime(kept)
        stamp.write_text(key)
        return Outcome(guest, "from the cache")
    began = time.monotonic()
    done = subprocess.run(
        [BAKERY, "build", guest.folder, "-o", guest.out],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return Outcome(guest, error=done.stdout.strip())
    if (
        _key_of(guest) == key
    ):  # else a source changed meanwhile, and the component may be of either version
        _copy(guest.out, kept)
        stamp.write_text(key)
    return Outcome(guest, f"built in {time.monotonic() - began:.1f} s")


def make_all(guests: Iterable[Guest]) -> list[Outcome]:
    """Builds the guests that are out of date, one per core at a time, prints a line for each, and
    puts those that come with the engine where it looks for them."""
    OUT.mkdir(parents=True, exist_ok=True)
    outcomes = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for future in as_completed([pool.submit(make, guest) for guest in guests]):
            outcome = future.result()
            outcomes.append(outcome)
            if outcome.error:
                print(f"  {outcome.guest.name}: FAILED\n{_indented(outcome.error)}", flush=True)
            elif outcome.how != "unchanged":
                print(f"  {outcome.guest.name}: {outcome.how}", flush=True)
    _ship(outcomes)
    _prune()
    return outcomes


def _ship(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        guest = outcome.guest
        if guest.name in SHIPPED and not outcome.error:
            SHIPPED_DIR.mkdir(parents=True, exist_ok=True)
            _copy(guest.folder / "Pie.toml", SHIPPED_DIR / f"{guest.name}.toml")
            _copy(guest.out, SHIPPED_DIR / f"{guest.name}.wasm")


def _key_of(guest: Guest) -> str:
    """A hash of everything that goes into the component."""
    language = detect(guest.folder).NAME
    digest = hashlib.sha256(_language_key(language).encode())
    digest.update(_tree_hash(guest.folder).encode())
    return digest.hexdigest()[:32]


def _language_key(language: str) -> str:
    bakery = ROOT / "bakery"
    sources = [
        *(
            bakery / "src/bakery" / f"{name}.py"
            for name in ("build", "manifest", "toolchain", "wit")
        ),
        *sorted(bakery.glob(f"src/bakery/languages/{language}*")),
        bakery / "requirements.txt",
    ]
    parts = [_file_hash(path) for path in sources]
    folders = ("wit", "sdk/wasi", f"sdk/{language}", "bakery/js")
    parts += [_tree_hash(ROOT / folder) for folder in folders]
    if language == "rust":
        parts.append(_rust_version())
    return " ".join(parts)


@cache
def _rust_version() -> str:
    return subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout


def _tree_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        is_code = not _NOT_SOURCE & set(relative.parts) and path.suffix not in _NOT_CODE
        is_code = is_code and path.name != _LICENCE
        if is_code and path.is_file():
            digest.update(f"{relative}\0{_file_hash(path)}\0".encode())
    return digest.hexdigest()


def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.copyfile(source, partial)
    os.replace(partial, target)


def _prune() -> None:
    """Deletes the least recently used components until the cache is within its limit."""
    kept = sorted(cache_dir("guests").glob("*.wasm"), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in kept)
    for path in kept:
        if total <= _CACHE_LIMIT_BYTES or time.time() - path.stat().st_mtime < _CACHE_KEEP_S:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--under", metavar="FOLDER", type=Path)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()

    guests = all_guests()
    if args.under:
        inside = (ROOT / args.under).resolve()
        guests = [guest for guest in guests if inside in (guest.folder, *guest.folder.parents)]
    if unknown := set(args.names) - {guest.name for guest in guests}:
        known = ", ".join(guest.name for guest in guests) or "none"
        print(
            f"no such guest: {', '.join(sorted(unknown))}; the guests are: {known}", file=sys.stderr
        )
        return 1
    if args.names:
        guests = [guest for guest in guests if guest.name in args.names]
    if args.list:
        print("\n".join(guest.name for guest in guests))
        return 0
    outcomes = make_all(guests)
    failed = [outcome.guest.name for outcome in outcomes if outcome.error]
    print(f"guests: {len(outcomes) - len(failed)} ready" + f", {len(failed)} failed" * bool(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
