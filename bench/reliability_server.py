"""A `pie serve --dummy` for the reliability runs, and the client that drives it."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PIE = ROOT / "build" / "bin" / "pie"
GUESTS = ROOT / "build" / "guests"

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from raw_client import RawClient, Refused  # noqa: E402

__all__ = [
    "GUESTS",
    "PIE",
    "ROOT",
    "RawClient",
    "Refused",
    "Server",
    "add_program",
    "raise_file_limit",
]


def add_program(home: Path, guest: str, manifest: str) -> None:
    """Installs a guest of the tree into a server's home. `manifest` is a path in the tree."""
    subprocess.run(
        [PIE, "inferlet", "add", GUESTS / f"{guest}.wasm", "-m", ROOT / manifest],
        env={**os.environ, "PIE_HOME": str(home)},
        check=True,
        stdout=subprocess.DEVNULL,
    )


def raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Server:
    """A server on a home folder that outlives it."""

    def __init__(self, home: Path) -> None:
        self.env = {**os.environ, "PIE_HOME": str(home)}
        self.process = subprocess.Popen(
            [PIE, "serve", "--dummy", "--port", "0"],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        first = self.process.stdout.readline()
        found = re.search(r"(ws://\S+)", first)
        if not found:
            raise RuntimeError(f"the server did not start: {first}")
        self.uri = found[1]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
