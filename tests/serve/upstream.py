"""A server of this machine that inferlets call. It behaves well, or misbehaves in many ways."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

METADATA = "http://169.254.169.254/latest/meta-data"
# Made in advance, because an inferlet waits for seconds only.
BOMB = gzip.compress(bytes(64 << 20), 1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):  # the other side may leave at any time
            getattr(self, f"get_{self.path[1:].split('?')[0] or 'root'}", self.get_missing)()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        kept = {name: self.headers[name] for name in ("content-type", "x-key")}
        self.answer(json.dumps([json.loads(body), kept]).encode(), 201)

    def get_root(self) -> None:
        self.answer(b"from upstream")

    def get_missing(self) -> None:
        self.answer(b"nothing here", 404)

    def get_redirect(self) -> None:
        self.answer(b"", 302, location=METADATA)

    def get_hop(self) -> None:
        self.answer(b"", 302, location="/")

    def get_circle(self) -> None:
        self.answer(b"", 302, location="/circle")

    def get_endless(self) -> None:
        self.send_response(200)
        self.send_header("connection", "close")
        self.end_headers()
        for _ in range(100_000):
            self.wfile.write(b"x" * 65536)

    def get_slow(self) -> None:
        """A body that comes a byte at a time."""
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        for _ in range(1000):
            self.wfile.write(b"x")
            time.sleep(0.2)

    def get_silent(self) -> None:
        """No response at all."""
        time.sleep(60)

    def get_headers(self) -> None:
        """A head that never ends."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for i in range(100_000):
            self.wfile.write(b"x-%d: %s\r\n" % (i, b"y" * 1000))

    def get_short(self) -> None:
        """A body that is shorter than its announced length."""
        self.send_response(200)
        self.send_header("content-length", "100")
        self.end_headers()
        self.wfile.write(b"half")
        self.close_connection = True

    def get_garbage(self) -> None:
        self.wfile.write(b"\x00\x01 not HTTP at all\r\n\r\n")
        self.close_connection = True

    def get_bomb(self) -> None:
        """64 MiB in a few hundred KiB."""
        self.answer(BOMB, content_encoding="gzip")

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def listening() -> Iterator[int]:
    """Runs the server and gives its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
