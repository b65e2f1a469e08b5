"""A client of Pie. It installs inferlets on a server, launches them and streams their output."""

from .client import Key, PieClient, ProcessInfo
from .errors import (
    AuthError,
    ConnectionLost,
    IntegrityError,
    PieError,
    ProcessEnded,
    ProcessError,
    RequestTimeout,
    ServerError,
    TooLarge,
)
from .events import Event
from .keys import ParsedPrivateKey
from .mcp import McpError
from .process import Process

__version__ = "0.1.0"

__all__ = [
    "AuthError",
    "ConnectionLost",
    "Event",
    "IntegrityError",
    "Key",
    "McpError",
    "ParsedPrivateKey",
    "PieClient",
    "PieError",
    "Process",
    "ProcessEnded",
    "ProcessError",
    "ProcessInfo",
    "RequestTimeout",
    "ServerError",
    "TooLarge",
]
