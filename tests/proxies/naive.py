"""The negative control: a server and a proxy that are as careless as many once were.

The server accepts a bare LF as a line end, trims names, and follows any transfer coding, or the length, depending on
its options. The proxy follows the length, forwards the bytes that it counted, and uses one connection to the server for
all its clients. Together they can be made to disagree, and the checker must detect that.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading


class Stream:
    def __init__(self, link: socket.socket):
        self.link, self.got = link, b""

    def more(self) -> None:
        data = self.link.recv(65536)
        if not data:
            raise EOFError
        self.got += data

    def line(self) -> bytes:
        while b"\n" not in self.got:
            self.more()
        line, _, self.got = self.got.partition(b"\n")
        return line + b"\n"

    def take(self, count: int) -> bytes:
        while len(self.got) < count:
            self.more()
        taken, self.got = self.got[:count], self.got[count:]
        return taken


def head_of(stream: Stream) -> tuple[bytes, str, dict[str, str]]:
    first = stream.line()
    while first.strip() == b"":
        first = stream.line()
    raw, fields = first, {}
    while (line := stream.line()).strip() != b"":
        raw += line
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.strip().lower()] = value.strip()
    return raw + line, first.decode("latin-1"), fields


def length_of(fields: dict[str, str]) -> int:
    text = fields.get("content-length", "0").split(",")[0].strip()
    return int(text) if text.isdigit() else 0


def chunks_of(stream: Stream) -> None:
    while True:
        digits = stream.line().split(b";")[0].strip()
        size = int(digits or b"0", 16)
        if size <= 0:
            while stream.line().strip() != b"":
                pass
            return
        stream.take(size)
        stream.line()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class NaiveService:
    """Behaves like the service, as far as the checker needs it."""

    def __init__(self, believes_length: bool):
        self.believes_length = believes_length
        self.voucher, self.others = "1", {name: "1" for name in ("SOLD_OUT", "NOT_STARTED", "ENDED", "PAUSED", "ONE_LEFT", "ORDER")}
        self.users: set[str] = set()
        service = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                stream = Stream(self.request)
                try:
                    while True:
                        service.serve(stream)
                except (EOFError, OSError, ValueError):
                    pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def buyers(self) -> set[str]:
        return set(self.users)

    def serve(self, stream: Stream) -> None:
        _, first, fields = head_of(stream)
        if "transfer-encoding" in fields and not self.believes_length:
            chunks_of(stream)
        else:
            stream.take(length_of(fields))
        method, target = (first.split() + ["", ""])[:2]
        user = fields.get("x-user-id", "")
        status, document = 404, {"code": "NOT_FOUND"}
        if method == "POST" and target.startswith("/seckill/"):
            status = 409 if user in self.users else 201
            document = {"user_id": user} if status == 201 else {"code": "ALREADY_ORDERED"}
            self.users.add(user)
        elif target.startswith("/vouchers/"):
            status, document = 200, {"id": target.rpartition("/")[2]}
        elif target.startswith("/orders"):
            status, document = 200, {"orders": [{"user_id": user}]}
        body = json.dumps(document).encode()
        stream.link.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body))

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class NaiveProxy:
    """One connection to the service for all clients: one request after the other."""

    def __init__(self, upstream: int):
        self.upstream_port, self.lock = upstream, threading.Lock()
        self.upstream: Stream | None = None
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                stream = Stream(self.request)
                try:
                    while True:
                        raw, _, fields = head_of(stream)
                        body = stream.take(length_of(fields))
                        self.request.sendall(proxy.forward(raw + body))
                except (EOFError, OSError, ValueError):
                    pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def forward(self, request: bytes) -> bytes:
        with self.lock:
            if self.upstream is None:
                self.upstream = Stream(socket.create_connection(("127.0.0.1", self.upstream_port), timeout=1))
            try:
                self.upstream.link.sendall(request)
                head, _, fields = head_of(self.upstream)
                return head + self.upstream.take(length_of(fields))
            except (EOFError, OSError):
                self.upstream.link.close()
                self.upstream = None
                raise

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
