"""The settings of `pie-client`: from flags, else the environment, else its settings file."""

from __future__ import annotations

import argparse
import getpass
import os
import tomllib
from pathlib import Path

KEYS = {
    "uri": "address of the server: ws://HOST:PORT or wss://HOST:PORT",
    "username": "your username",
    "key": "file of your private key",
    "token_file": "file with a server's token, instead of username and key",
    "ca": "file of the authority that signed the server's certificate",
}
DEFAULTS = {"uri": "ws://127.0.0.1:8080"}


def path() -> Path:
    """The path of `client.toml`, in $PIE_HOME or else ~/.pie."""
    return Path(os.environ.get("PIE_HOME") or Path.home() / ".pie") / "client.toml"


def from_file() -> dict[str, str]:
    try:
        found = tomllib.loads(path().read_text())
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path()} is not valid TOML: {error}") from None
    if unknown := set(found) - set(KEYS):
        raise ValueError(
            f"{path()}: unknown key {', '.join(sorted(unknown))}; use {', '.join(KEYS)}"
        )
    return {key: str(value) for key, value in found.items()}


def write(values: dict[str, str]) -> None:
    """Writes the values to the settings file. Only its owner can read it."""
    lines = [f'{key} = "{_escaped(value)}"\n' for key, value in values.items()]
    path().parent.mkdir(parents=True, exist_ok=True)
    partial = path().with_suffix(".partial")
    partial.write_text("".join(lines))
    partial.chmod(0o600)
    partial.replace(path())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def effective(flags: argparse.Namespace) -> dict[str, str]:
    """Returns the effective settings."""
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
