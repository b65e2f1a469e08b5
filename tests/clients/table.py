"""Runs the cases of client/conformance/cases.json with a driver."""

from __future__ import annotations

import hashlib
import itertools
import json
import queue
import re
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import world
from wire import FakeServer, Loop, Proxy

CASES = json.loads((world.ROOT / "client/conformance/cases.json").read_text())
_fresh = itertools.count(1)


class Driver:
    """A running driver. Answers are matched to requests by number, so several can be in flight."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [*command, str(folder)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[dict[str, Any]]] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            answer = json.loads(line)
            self._answers[answer["id"]].put(answer)
        for waiting in self._answers.values():
            waiting.put({"error": {"kind": "bug", "message": "the driver ended"}})

    def start(self, command: dict[str, Any]) -> int:
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        self.process.stdin.write(json.dumps({"id": number, **command}) + "\n")
        self.process.stdin.flush()
        return number

    def finish(self, number: int) -> dict[str, Any]:
        try:
            return self._answers[number].get(timeout=world.LIMIT_S)
        except queue.Empty:
            self.process.kill()  # the next case starts its own driver
            raise AssertionError("the driver did not answer") from None
        finally:
            del self._answers[number]

    def stop(self) -> int:
        self.process.stdin.close()
        return self.process.wait(world.LIMIT_S)


class Run:
    """Runs one case with one driver on one server."""

    def __init__(self, case: dict[str, Any], driver: Driver, loop: Loop, folder: Path) -> None:
        self.case = case
        self.driver = driver
        self.loop = loop
        self.folder = folder
        number = next(_fresh)
        self.saved: dict[str, Any] = {"fresh": f"1.{number}.0"}
        self.prefix = f"{number}:"
        self.started: dict[str, int] = {}
        self.opened: set[str] = set()
        self.server: world.Server | None = None

    def on(self, server: world.Server | None) -> None:
        """Runs all steps."""
        self.server = server
        if "fake" in self.case:
            self.between: Proxy | FakeServer = FakeServer(self.loop, self.case["fake"])
        else:
            certificates = server.home if server.uri.startswith("wss") else None
            self.between = Proxy(self.loop, server.port, certificates)
        try:
            if server and not server.prepared:
                self._prepare(server)
            if self.case.get("connect", True):
                self.step({"op": "login"})
            for step in self.case["steps"]:
                self.step(step)
        finally:
            for client in self.opened:
                self.driver.finish(self.driver.start({"op": "close", "client": client}))
            self.between.close()

    def _prepare(self, server: world.Server) -> None:
        """Installs the programs that the cases launch, as the user of the case."""
        server.prepared = True
        if server.uri.startswith("wss"):
            connect = {"op": "connect", "uri": "$tls_uri", "ca": "$ca", "username": "ada"}
            key = {"key": "$key:ed25519"} if server.guarded else {}
            self.step({**connect, **key, "client": "first"})
        else:
            self.step({"op": "login", "client": "first"})
        manifest = str(world.MANIFESTS["session"])
        install = {"op": "install", "wasm": "$wasm:session", "manifest": manifest}
        self.step({**install, "client": "first"})

    # Steps that the driver runs.

    def step(self, step: dict[str, Any]) -> None:
        step = dict(step)
        judged = {k: step.pop(k) for k in ("expect", "error", "contains", "save") if k in step}
        own = getattr(self, f"_do_{step['op']}", None)
        if own:
            answer = own(step)
        else:
            begun = step.pop("start", None)
            number = self.driver.start(self.command(step))
            if begun:
                self.started[begun] = number
                return
            answer = self.driver.finish(number)
        self.judge(step, answer, **judged)

    def command(self, step: dict[str, Any]) -> dict[str, Any]:
        command = self.expand(step)
        of_process = {"signal", "transfer", "terminate", "discard", "seen", "recv", "drain"}
        if command["op"] not in of_process | {"text", "result"}:
            command.setdefault("client", "c")
        for field in ("client", "process"):
            if field in command:
                command[field] = self.prefix + command[field]
        if command["op"] == "connect":
            self.opened.add(command["client"])
            command.setdefault("timeout", 1 if self.case.get("fake") == "silent" else world.LIMIT_S)
        return command

    def judge(self, step, answer, expect=None, error=None, contains=None, save=None) -> None:
        if error:
            assert "error" in answer, f"{step}: expected an error, got {answer}"
            assert answer["error"]["kind"] == error, f"{step}: {answer}"
            assert answer["error"]["message"], f"{step}: the error has no message"
            if contains:
                assert contains in answer["error"]["message"], f"{step}: {answer}"
            if save:
                self.saved[save] = answer["error"].get("events", [])
            return
        assert "error" not in answer, f"{step}: {str(answer)[:2000]}"
        found = answer.get("ok")
        if expect is not None:
            wanted = self.expected(expect)
            assert self.normal(found) == wanted, f"{step}"
        if contains:
            assert self.expand(contains) in json.dumps(found), f"{step}: {found}"
        if save:
            self.saved[save] = found

    # Steps that the tests do themselves.

    def _do_login(self, step: dict[str, Any]) -> dict[str, Any]:
        user = step.get("user", "ada")
        command = {"op": "connect", "client": step.get("client", "c"), "uri": "$uri"}
        command["username"] = user
        if self.server and self.server.guarded:
            command["key"] = "$key:eve" if user == "eve" else "$key:ed25519"
        return self.driver.finish(self.driver.start(self.command(command)))

    def _do_await(self, step: dict[str, Any]) -> dict[str, Any]:
        return self.driver.finish(self.started.pop(step["of"]))

    def _do_pause(self, step: dict[str, Any]) -> dict[str, Any]:
        time.sleep(step["s"])
        return {}

    def _do_cut(self, step: dict[str, Any]) -> dict[str, Any]:
        self.between.cut(step.get("after_down"))
        return {}

    def _do_stall(self, step: dict[str, Any]) -> dict[str, Any]:
        self.between.stall()
        return {}

    def _do_corrupt(self, step: dict[str, Any]) -> dict[str, Any]:
        self.between.spoil(step["after"])
        return {}

    def _do_kill(self, step: dict[str, Any]) -> dict[str, Any]:
        self.server.end(signal.SIGKILL)
        return {}

    def _do_stop(self, step: dict[str, Any]) -> dict[str, Any]:
        self.server.end(signal.SIGTERM)
        return {}

    def _do_joined(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"ok": [event for part in step["parts"] for event in self.saved[part[1:]]]}

    # Values in cases.

    def expand(self, value: Any) -> Any:
        """Replaces each `$…` by its value."""
        if isinstance(value, dict):
            return {key: self.expand(part) for key, part in value.items()}
        if not isinstance(value, str) or "$" not in value:
            return value
        if not value.startswith("$"):
            return re.sub(r"\$(\w+)$", lambda found: str(self.saved[found[1]]), value)
        word, *rest = value[1:].split(":")
        if word in self.saved:
            return self.saved[word]
        if word == "uri":
            return f"ws://127.0.0.1:{self.between.port}"
        if word == "tls_uri":
            return f"wss://localhost:{self.server.port}"
        if word == "between_uri":
            return f"wss://localhost:{self.between.port}"
        if word == "ca":
            return str(self.server.home / "ca.pem")
        if word == "token":
            return self.server.token
        if word == "key":
            return world.private_text(*rest)
        if word == "long":
            return "x" * int(rest[0])
        if word == "file":
            path = self.folder / f"file-{rest[0]}"
            if not path.is_file():
                path.write_bytes(world.content(int(rest[0])))
            return str(path)
        if word == "wasm":
            if len(rest) == 1:
                return str(world.component(rest[0]))
            return str(world.padded(rest[0], int(rest[1]), self.folder))
        assert word == "manifest", value
        path = self.folder / f"{rest[0]}-{self.saved['fresh']}.toml"
        text = world.MANIFESTS[rest[0]].read_text().replace('"0.1.0"', f'"{self.saved["fresh"]}"')
        path.write_text(text)
        return str(path)

    def expected(self, value: Any) -> Any:
        """Expands an expected value. In a list, `$numbers:2:5` stands for the events 2, 3 and 4."""
        if not isinstance(value, list):
            return self.expand(value)
        out: list[Any] = []
        for part in value:
            if isinstance(part, str) and part.startswith("$numbers:"):
                out += [["stdout", str(i)] for i in range(*map(int, part.split(":")[1:]))]
            elif isinstance(part, str) and part.startswith("$bytes:"):
                out.append(_digest(bytes.fromhex(part.split(":")[1])))
            elif isinstance(part, str) and part.startswith("$file:"):
                out.append(_digest(Path(self.expand(part)).read_bytes()))
            else:
                out.append(self.expected(part))
        return out

    def normal(self, found: Any) -> Any:
        """Replaces paths of received files by the files' contents."""
        if not isinstance(found, list):
            return found
        if len(found) == 2 and found[0] == "file":
            return ["file", _digest(Path(found[1]).read_bytes())]
        return [self.normal(part) for part in found]


def _digest(data: bytes) -> str:
    return f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()}"
