"""What can go wrong. Everything that this package raises for a reason outside it is a PieError."""

from __future__ import annotations


class PieError(Exception):
    """The root of all errors of this package."""


class ServerError(PieError):
    """The server answered a request with a refusal; the text is the server's."""


class AuthError(ServerError):
    """The server does not believe who this client says it is."""


class ConnectionLost(PieError, ConnectionError):
    """There is no connection, or it broke. `PieClient.reconnect` takes up where it ended."""


class RequestTimeout(PieError, TimeoutError):
    """Nothing came within the time that was given. The connection is still good."""


class ProcessError(PieError):
    """The process ended with an Error event; the text is its own."""


class ProcessEnded(PieError):
    """The last word of the process was taken already: there is nothing more to wait for."""


class IntegrityError(PieError):
    """A file arrived that is not what its hash says."""


class TooLarge(PieError, ValueError):
    """A message of this size would be refused; nothing was sent."""
