"""The errors of this package. Every error with a cause outside the package is a PieError."""

from __future__ import annotations


class PieError(Exception):
    """The base class of all errors of this package."""


class ServerError(PieError):
    """The server refused a request. The text is the server's."""


class AuthError(ServerError):
    """The server did not accept the username or its proof."""


class ConnectionLost(PieError, ConnectionError):
    """There is no connection, or it broke. `PieClient.reconnect` continues where it stopped."""


class RequestTimeout(PieError, TimeoutError):
    """Nothing arrived within the time-out. The connection still works."""


class ProcessError(PieError):
    """The process ended with an Error event. The text is the process's."""


class ProcessEnded(PieError):
    """The last event of the process was taken already; no further event will arrive."""


class IntegrityError(PieError):
    """A received file does not match its hash."""


class TooLarge(PieError, ValueError):
    """The message is too large for the server. Nothing was sent."""
