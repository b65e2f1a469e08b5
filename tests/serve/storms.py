"""Floods a server with messages of one kind over many connections, as fast as the server reads
them.

storms.py MODE PORT CONNECTIONS

Prints a line when all connections are open, and goes on until it is killed. A connection that the
server closes is opened again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import selectors
import socket
import sys
from collections.abc import Callable, Iterator

from small_messages import UPGRADE, connect, frame

EMPTY_FRAGMENT = b"\x00\x80\0\0\0\0"
POST = (
    b"POST /apps/http-echo/pipe HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def plain(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.setblocking(False)
    return made


def stranger(port: int) -> socket.socket:
    """A WebSocket that names no user."""
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(UPGRADE)
    assert made.recv(4096).startswith(b"HTTP/1.1 101 ")
    made.setblocking(False)
    return made


def deep(levels: int) -> bytes:
    """A message of lists within lists."""
    payload = b"\x91" * levels
    return b"\x82\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload


def upload(number: int) -> bytes:
    """The first of many chunks of a component."""
    return frame(
        type="add_program",
        corr_id=number,
        program_hash=hashlib.sha256(str(number).encode()).hexdigest(),
        manifest="",
        force_overwrite=False,
        chunk_index=0,
        total_chunks=1 << 20,
        chunk_data=b"x" * 1_000,
    )


def begin_with(opened: socket.socket, head: bytes) -> socket.socket:
    opened.send(head)
    return opened


# How a connection is opened, and the bytes that are sent on it again and again.
MODES: dict[str, tuple[Callable[[int], socket.socket], Callable[[], Iterator[bytes]]]] = {
    "watch": (
        connect,
        lambda: itertools.repeat(frame(type="query", corr_id=2, subject="watch", record="") * 50),
    ),
    "library": (
        connect,
        lambda: itertools.repeat(frame(type="query", corr_id=2, subject="library", record="") * 50),
    ),
    "uploads": (connect, lambda: (upload(i) for i in itertools.count())),
    "servers": (
        connect,
        lambda: (
            frame(type="register_mcp_server", corr_id=i, name=f"server{i}", transport="stdio")
            for i in itertools.count()
        ),
    ),
    "attach": (
        connect,
        lambda: itertools.repeat(frame(type="attach_process", corr_id=2, process_id="0" * 36) * 50),
    ),
    "unknown": (connect, lambda: itertools.repeat(frame(type="x" * 100, corr_id=2) * 50)),
    "names": (
        stranger,
        lambda: (
            frame(type="auth_identify", corr_id=i, username=f"user{i}") for i in itertools.count()
        ),
    ),
    "proofs": (
        stranger,
        lambda: itertools.repeat(
            frame(type="auth_identify", corr_id=1, username="neighbour")
            + frame(type="auth_prove", corr_id=2, signature="A" * 88)
            + frame(type="auth_by_token", corr_id=3, token="A" * 43)
        ),
    ),
    "deep": (stranger, lambda: itertools.repeat(deep(60_000))),
    "fragments": (
        lambda port: begin_with(connect(port), b"\x02\x80\0\0\0\0"),
        lambda: itertools.repeat(EMPTY_FRAGMENT * 10_000),
    ),
    "not_found": (
        plain,
        lambda: itertools.repeat(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100),
    ),
    "fields": (
        plain,
        lambda: itertools.chain(
            [b"GET / HTTP/1.1\r\nHost: localhost\r\n"], itertools.repeat(b"a: b\r\n" * 1_000)
        ),
    ),
    "chunks": (
        lambda port: begin_with(plain(port), POST),
        lambda: itertools.repeat(b"1\r\nx\r\n" * 10_000),
    ),
    "half_closed": (plain, lambda: iter(())),
}


class Connection:
    def __init__(self, selector: selectors.BaseSelector, mode: str, port: int) -> None:
        opened, self.pieces = MODES[mode][0], MODES[mode][1]()
        self.socket, self.left = opened(port), b""
        if mode == "half_closed":
            self.socket.shutdown(socket.SHUT_WR)
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        wants = selectors.EVENT_READ if mode == "half_closed" else both
        selector.register(self.socket, wants, data=self)

    def go_on(self, events: int) -> bool:
        """Returns whether the connection is still open."""
        with contextlib.suppress(BlockingIOError):
            if events & selectors.EVENT_READ and not self.socket.recv(1 << 16):
                return False
            if events & selectors.EVENT_WRITE:
                if not self.left:
                    self.left = next(self.pieces)
                self.left = self.left[self.socket.send(self.left) :]
        return True


def main(mode: str, port: int, connections: int) -> None:
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        Connection(selector, mode, port)
    print("ready", flush=True)
    while True:
        for key, events in selector.select():
            connection = key.data
            try:
                there = connection.go_on(events)
            except OSError:
                there = False
            if not there:
                selector.unregister(connection.socket)
                connection.socket.close()
                with contextlib.suppress(OSError, AssertionError):
                    Connection(selector, mode, port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
