"""Sends small messages over many connections of one user, as fast as the server takes them.

    small_messages.py PORT CONNECTIONS

It prints a line when all connections are authenticated, and goes on until it is killed.
"""

from __future__ import annotations

import selectors
import socket
import struct
import sys

import msgpack

UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MESSAGES = 500


def frame(**fields: object) -> bytes:
    """A message as a WebSocket frame of a client, with a mask of zeros."""
    payload = msgpack.packb(fields)
    size = len(payload)
    if size > 125:
        head = struct.pack(">BBH", 0x82, 0x80 | 126, size)
    else:
        head = struct.pack("BB", 0x82, 0x80 | size)
    return head + bytes(4) + payload


def connect(port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port))
    made.sendall(UPGRADE)
    assert made.recv(4096).startswith(b"HTTP/1.1 101 ")
    made.sendall(frame(type="auth_identify", corr_id=1, username="mallory"))
    assert b"Authenticated" in made.recv(4096)
    made.setblocking(False)
    return made


def main(port: int, connections: int) -> None:
    flood = frame(type="ping", corr_id=2) * MESSAGES
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        selector.register(connect(port), both, data=[0])  # how much of the flood was sent
    print("ready", flush=True)
    while True:
        for key, events in selector.select():
            made, sent = key.fileobj, key.data
            assert isinstance(made, socket.socket)
            if events & selectors.EVENT_READ:
                assert made.recv(1 << 16), "the server closed the connection"
            if events & selectors.EVENT_WRITE:
                sent[0] = (sent[0] + made.send(flood[sent[0] :])) % len(flood)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
