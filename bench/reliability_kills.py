"""Kills servers and commands while they save contexts, install programs and change keys.

What was confirmed before a kill must be there after it, and nothing half-written may be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import subprocess
import tempfile
from pathlib import Path

import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from reliability_server import GUESTS, PIE, RawClient, Server, add_program

SAVER = "bench-soak@0.1.0"
START_S = 60  # a server on a busy machine may have to compile the saver first


def manifest(name: str, version: str) -> str:
    return f'[package]\nname = "{name}"\nversion = "{version}"\n[runtime]\ncore = "^0.2.0"\n'


class Round:
    """One run of a server. Each list holds what clients confirmed during the run."""

    def __init__(self, home: Path, number: int, dice: random.Random) -> None:
        self.home, self.number, self.dice = home, number, dice
        self.user = f"user {number}"  # each has a quota, and owns its program
        self.program = f"killed-{number}"
        self.saved: list[str] = []
        self.installed: list[str] = []
        self.keys: list[str] = []
        self.began = asyncio.Event()  # the first context is saved

    async def save(self, client: RawClient) -> None:
        first = json.dumps({"mode": "save", "n": self.number * 1_000_000})
        process = await client.launch(SAVER, first)
        while True:
            kind, value = await client.event(process)
            if kind not in ("message", "stdout"):
                raise RuntimeError(f"the saver ended: {value}")
            self.saved.append(value)
            self.began.set()

    async def install(self, client: RawClient) -> None:
        component = (GUESTS / "bench-empty.wasm").read_bytes()
        for patch in range(1_000_000):
            version = f"0.{self.number}.{patch}"
            await client.install(component, manifest(self.program, version))
            self.installed.append(version)

    async def change_keys(self, server: Server) -> None:
        """The command is killed as well, at any moment, and not only the server."""
        for patch in range(1_000_000):
            user = f"user-{self.number}-{patch}"
            command = [PIE, "auth", "add", user, self.home / "key.pub"]
            adding = await asyncio.create_subprocess_exec(
                *command,
                env=server.env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            if self.dice.random() < 0.5:
                await asyncio.sleep(self.dice.uniform(0, 0.03))
                with contextlib.suppress(ProcessLookupError):
                    adding.kill()
            if await adding.wait() == 0:
                self.keys.append(user)

    async def run(self) -> None:
        server = Server(self.home)
        tasks = []
        try:
            clients = [await RawClient.connect(server.uri, user=self.user) for _ in range(2)]
            tasks = [
                asyncio.create_task(work)
                for work in (
                    self.save(clients[0]),
                    self.install(clients[1]),
                    self.change_keys(server),
                )
            ]
            began = asyncio.create_task(self.began.wait())
            await asyncio.wait([began, *tasks], timeout=START_S, return_when="FIRST_COMPLETED")
            await asyncio.sleep(self.dice.uniform(0, 0.5))
            began.cancel()
            for task in tasks:
                if task.done():
                    task.result()  # raises
            if not self.saved:
                raise RuntimeError(f"no context was saved within {START_S} s")
        finally:
            server.kill()
            # A task that receives something at that moment may miss the cancellation.
            while any(not task.done() for task in tasks):
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=0.1)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def count_lost(self) -> int:
        """Looks for what was confirmed, on a new server."""
        lost = 0
        server = Server(self.home)
        try:
            client = await RawClient.connect(server.uri, user=self.user)
            for name in self.saved[-20:]:  # the last ones were nearest to the kill
                process = await client.launch(SAVER, json.dumps({"mode": "open", "name": name}))
                kind, _ = (await client.until_end(process))[-1]
                lost += kind != "return"
            component = blake3.blake3((GUESTS / "bench-empty.wasm").read_bytes()).hexdigest()
            for version in self.installed:
                there = await client.ask(
                    "check_program", name=self.program, version=version, wasm_hash=component
                )
                lost += there != "true"
            await client.close()
        finally:
            server.kill()
        listed = subprocess.run(
            [PIE, "auth", "list"], env=server.env, capture_output=True, text=True, check=False
        )
        lost += listed.returncode != 0
        users = set(listed.stdout.split())
        return lost + sum(user not in users for user in self.keys)


async def measure(kills: int) -> dict[str, float]:
    dice = random.Random(1)
    totals = {"saved": 0, "installed": 0, "keys": 0}
    lost = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        public = Ed25519PrivateKey.generate().public_key()
        (home / "key.pub").write_bytes(public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
        add_program(home, "bench-soak", "bench/soak/Pie.toml")
        for number in range(kills):
            life = Round(home, number, dice)
            await life.run()
            lost += await life.count_lost()
            for what in totals:
                totals[what] += len(getattr(life, what))
    return {
        "soak_kills": kills,
        **{f"soak_kill_{what}": count for what, count in totals.items()},
        "soak_kill_lost": lost,
    }
