"""Where `pie-client` finds a server: flags, else the environment, else its config file."""

from __future__ import annotations

import argparse
import getpass
import os
import tomllib
from pathlib import Path

KEYS = {
    "uri": "the server: ws://HOST:PORT, or wss://…",
    "username": "who you are",
    "key": "the file of your private key",
    "token_file": "a file with a server's token, in place of name and key",
    "ca": "the file of the authority that signed the server's certificate",
}
DEFAULTS = {"uri": "ws://127.0.0.1:8080"}


def path() -> Path:
    """`client.toml` in $PIE_HOME, else in ~/.pie."""
    return Path(os.environ.get("PIE_HOME") or Path.home() / ".pie") / "client.toml"


def from_file() -> dict[str, str]:
    try:
        found = tomllib.loads(path().read_text())
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path()} is no TOML: {error}") from None
    if unknown := set(found) - set(KEYS):
        raise ValueError(
            f"{path()}: unknown key {', '.join(sorted(unknown))}; there are {', '.join(KEYS)}"
        )
    return {key: str(value) for key, value in found.items()}


def write(values: dict[str, str]) -> None:
    """Keeps the values; nobody else can read them."""
    lines = [f'{key} = "{_escaped(value)}"\n' for key, value in values.items()]
    path().parent.mkdir(parents=True, exist_ok=True)
    partial = path().with_suffix(".partial")
    partial.write_text("".join(lines))
    partial.chmod(0o600)
    partial.replace(path())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def effective(flags: argparse.Namespace) -> dict[str, str]:
    """What holds now."""
    values = {**DEFAULTS, "username": _login_name(), **from_file()}
    for key in KEYS:
        given = getattr(flags, key, None) or os.environ.get(f"PIE_CLIENT_{key.upper()}")
        if given:
            values[key] = given
    return values


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "anonymous"
