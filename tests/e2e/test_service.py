"""The unit of the installation, started by a real systemd, serves and stops."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MACHINE = Path(__file__).with_name("systemd_machine.sh")
CGROUPS = Path("/sys/fs/cgroup/systemd")
LIMIT_S = 300  # so long that the test fails only if something hangs

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0
    or not CGROUPS.is_dir()
    or not Path("/lib/systemd/systemd").exists()
    or shutil.which("unshare") is None,
    reason="the test needs root, systemd, and a hierarchy of cgroups that is named systemd",
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Machine:
    """Runs systemd with the unit, and collects systemd's output in `said`."""

    def __init__(self, folder: Path, prefix: Path, config: Path) -> None:
        self.said = ""
        self.cgroup = CGROUPS / f"pie-test-{os.getpid()}"
        self.cgroup.mkdir()
        ours, theirs = os.openpty()
        namespaces = ("--mount", "--pid", "--fork", "--ipc", "--uts", "--cgroup", "--kill-child")
        join = f"echo $$ > {self.cgroup}/cgroup.procs && exec setsid --ctty unshare"
        self.process = subprocess.Popen(
            ["sh", "-c", f'{join} "$@"', "sh", *namespaces, MACHINE, folder, prefix, config],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()

    def _read(self, terminal: int) -> None:
        try:
            while data := os.read(terminal, 4096):
                self.said += data.decode(errors="replace")
        except OSError:
            pass  # the machine has been shut down
        os.close(terminal)

    def systemd(self) -> int:
        """Returns the process that has the number 1 inside the machine."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def engine(self) -> int:
        """The process of the service."""
        for pid in (self.cgroup / "system.slice/pie.service/cgroup.procs").read_text().split():
            if Path(f"/proc/{pid}/comm").read_text() == "pie\n":
                return int(pid)
        raise AssertionError(self.said)

    def halt(self) -> None:
        os.kill(self.systemd(), signal.SIGRTMIN + 3)
        self.process.wait(LIMIT_S)

    def close(self) -> None:
        self.process.kill()  # this ends all processes of the machine, too
        self.process.wait()
        self._reader.join()
        folders = [self.cgroup, *(f for f in self.cgroup.rglob("*") if f.is_dir())]
        for folder in sorted(folders, reverse=True):
            while True:
                try:
                    folder.rmdir()
                    break
                except OSError:  # its last process is ending
                    time.sleep(0.01)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    prefix = tmp_path_factory.mktemp("service") / "pie"
    install = [ROOT / "scripts/install.sh", prefix]
    subprocess.run(install, check=True, capture_output=True, timeout=LIMIT_S)
    return prefix


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def machine(prefix, port, tmp_path) -> Iterator[Machine]:
    config = tmp_path / "config.toml"
    config.write_text(f"""
[server]
port = {port}
[[model]]
name = "default"
[model.driver]
type = "dummy"
""")
    (tmp_path / "machine").mkdir()
    machine = Machine(tmp_path / "machine", prefix, config)
    yield machine
    machine.close()


def ask(machine: Machine, port: int) -> str:
    """One generation, by the inferlet that serves the OpenAI API."""
    body = {"model": "default", "messages": [{"role": "user", "content": "Hello"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps({**body, "max_tokens": 8}).encode(),
        {"Content-Type": "application/json"},
    )
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as response:
                return json.load(response)["choices"][0]["message"]["content"]
        except ConnectionRefusedError:
            assert machine.process.poll() is None and time.monotonic() < until, machine.said
        except urllib.error.URLError as error:
            assert isinstance(error.reason, ConnectionRefusedError), machine.said
            assert machine.process.poll() is None and time.monotonic() < until, machine.said
        time.sleep(0.1)


def test_the_unit_serves_a_generation_and_stops(machine, port, tmp_path):
    assert ask(machine, port)
    engine = Path(f"/proc/{machine.engine()}")
    status = dict(re.findall(r"(\w+):\s*(.*)", (engine / "status").read_text()))
    # The unit takes these permissions away from the service.
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert set(status["CapBnd"]) == set(status["CapEff"]) == {"0"}
    assert status["Uid"].split() == ["997"] * 4
    mounts = {
        line.split()[4]: line.split()[5].split(",")
        for line in (engine / "mountinfo").read_text().splitlines()
    }
    assert "ro" in mounts["/"] and "ro" in mounts["/opt/pie"]
    assert "rw" in mounts["/var/lib/pie"] and "rw" in mounts["/var/cache/pie"]
    assert "rw" in mounts["/tmp"], mounts
    (tmp_path / "seen").touch()
    assert not (engine / "root" / tmp_path.relative_to("/")).exists()
    # The service keeps its programs, and code that its compiler made under the same restrictions.
    assert any((engine / "root/var/lib/pie").iterdir())
    assert list((engine / "root/var/cache/pie").rglob("*.cwasm"))
    machine.halt()
    assert "pie.service: Deactivated successfully" in machine.said
