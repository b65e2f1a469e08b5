"""The rules for names of inferlets."""

from __future__ import annotations

import re

# The packages of the contract, and `wasi`. An inferlet with such a name would collide with them.
RESERVED = frozenset({"core", "instruct", "mcp", "zo", "plus", "inferlet", "wasi"})
MAX_LENGTH = 128

# WIT's own rule: words of lowercase letters and digits, the first beginning with a letter. The
# component exports pie:NAME/run. src/host/manifest.cc and the macros of the Rust SDK have the same.
_KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")


def problem_with(name: str) -> str | None:
    """Returns why `name` cannot be the name of an inferlet, or None if it can."""
    if not _KEBAB.match(name):
        return (
            f"{name!r} is not a valid inferlet name: use lowercase words joined by hyphens, the "
            "first beginning with a letter, such as my-app-2"
        )
    if len(name) > MAX_LENGTH:
        return f"{name!r} has {len(name)} characters; an inferlet name has at most {MAX_LENGTH}"
    if name in RESERVED:
        return (
            f"{name!r} is reserved, because the contract has a package pie:{name}; use another name"
        )
    return None


def suggestion_for(name: str) -> str | None:
    """Returns the nearest valid name, such as my-app for MyApp or my_app, or None."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
    words = re.sub(r"[^a-z0-9]+", "-", words.lower())
    words = words.lstrip("-0123456789").rstrip("-")
    candidate = words if problem_with(words) is None else f"my-{words}"
    return candidate if problem_with(candidate) is None else None
