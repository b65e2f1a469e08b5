"""The servers, users with keys, components and files that the cases refer to."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
from functools import cache
from pathlib import Path

import configuration
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ROOT = Path(__file__).resolve().parents[2]
PIE = os.environ.get("PIE_BINARY", str(ROOT / "build" / "bin" / "pie"))
MANIFESTS = {
    "session": ROOT / "tests/serve/session/rust/Pie.toml",
    "empty": ROOT / "bench/empty/Pie.toml",
    "http": ROOT / "tests/serve/http/rust/Pie.toml",
}
COMPONENTS = {"session": "serve-session-rust", "empty": "bench-empty", "http": "serve-http-rust"}

# Long enough that a test fails only if something hangs, even on a machine that stalls for minutes.
LIMIT_S = 600

KEYS = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p521": lambda: ec.generate_private_key(ec.SECP521R1()),  # no server accepts this kind
    "eve": ed25519.Ed25519PrivateKey.generate,
}
FORMS = {
    "": serialization.PrivateFormat.PKCS8,
    "encrypted": serialization.PrivateFormat.PKCS8,
    "openssh": serialization.PrivateFormat.OpenSSH,
    "traditional": serialization.PrivateFormat.TraditionalOpenSSL,
}


@cache
def key(kind: str):
    return KEYS[kind]()


def private_text(kind: str, form: str = "") -> str:
    secret = serialization.NoEncryption()
    if form == "encrypted":
        secret = serialization.BestAvailableEncryption(b"secret")
    pem = serialization.Encoding.PEM
    return key(kind).private_bytes(pem, FORMS[form], secret).decode()


def public_text(kind: str) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key(kind).public_key().public_bytes(serialization.Encoding.PEM, form).decode()


class Server:
    """A `pie serve --dummy` that knows two users."""

    def __init__(self, home: Path, config: str = "") -> None:
        self.home = home
        configuration.write(home, config)
        self.guarded = "[auth]" in config
        self.prepared = False  # whether the programs of the cases are installed
        for user, kinds in {"ada": ("rsa", "ed25519", "p256", "p384"), "eve": ("eve",)}.items():
            for kind in kinds:
                self._run("auth", "add", user, "-", stdin=public_text(kind))
        with open(home / "server.log", "a") as log:
            self.process = subprocess.Popen(
                [PIE, "serve", "--dummy", "--port", "0"],
                env={**os.environ, "PIE_HOME": str(home)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        first = self.process.stdout.readline()
        found = re.search(r"wss?://\S+:(\d+)", first)
        assert found, f"the server did not start: {first}{(home / 'server.log').read_text()}"
        self.uri, self.port = found[0], int(found[1])

    def _run(self, *arguments: str | Path, stdin: str = "") -> None:
        subprocess.run(
            [PIE, *arguments],
            env={**os.environ, "PIE_HOME": str(self.home)},
            input=stdin,
            check=True,
            text=True,
            stdout=subprocess.DEVNULL,
        )

    @property
    def token(self) -> str:
        return (self.home / f"server-{self.port}.token").read_text()

    def end(self, how: int = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait(LIMIT_S)
        self.process.stdout.close()


def component(name: str) -> Path:
    path = ROOT / "build" / "guests" / f"{COMPONENTS[name]}.wasm"
    assert path.is_file(), f"{path} is missing: run `make guests`"
    return path


def padded(name: str, size: int, folder: Path) -> Path:
    """The same component with a custom section appended, which makes it longer."""
    path = folder / f"{name}-{size}.wasm"
    if not path.is_file():
        whole = component(name).read_bytes()
        name_and_padding = b"\x03pad" + content(max(0, size - len(whole)))
        path.write_bytes(whole + b"\x00" + _leb128(len(name_and_padding)) + name_and_padding)
    return path


def _leb128(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def content(size: int) -> bytes:
    """Bytes of that length without long repetitions."""
    blocks = (hashlib.sha256(str(i).encode()).digest() for i in range(size // 32 + 1))
    return b"".join(blocks)[:size]
