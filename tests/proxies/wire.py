"""HTTP/1.1 as bytes: sends them unchanged, and separates answers strictly."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass, field


@dataclass
class Answer:
    status: int
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def closes(self) -> bool:
        return "close" in self.fields.get("connection", "").lower()


class Odd(Exception):
    """Bytes that are not an answer."""


class Link:
    """A connection, and the bytes received on it."""

    def __init__(self, port: int, timeout_s: float = 5.0, address: str = "127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s, source_address=(address, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout_s, self.got, self.ended = timeout_s, b"", False
        self.bodiless = False  # the next answer is to a HEAD

    def send(self, data: bytes) -> None:
        """Bytes that the other end no longer accepts are lost, as in production."""
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def close(self) -> None:
        self.socket.close()

    def answers(self, most: int, quiet_s: float) -> list[Answer]:
        """All answers until the connection ends, or nothing follows the last expected one for a while."""
        found: list[Answer] = []
        while (answer := self._next(self.timeout_s if len(found) < most else quiet_s)) is not None:
            if answer.status >= 200:
                found.append(answer)
        return found

    def one(self) -> Answer | None:
        while (answer := self._next(self.timeout_s)) is not None and answer.status < 200:
            pass
        return answer

    def head_and(self, text: bytes, seconds: float) -> bytes:
        """The bytes of an unfinished answer once it contains that text; all that arrived if it never does."""
        until = time.monotonic() + seconds
        while text not in self.got and self._more(until):
            pass
        return self.got

    def _more(self, until: float) -> bool:
        """False: nothing arrived in time, or the connection ended."""
        left = until - time.monotonic()
        if self.ended or left <= 0 or not select.select([self.socket], [], [], left)[0]:
            return False
        try:
            data = self.socket.recv(65536)
        except OSError:
            data = b""
        self.ended = data == b""
        self.got += data
        return not self.ended

    def _next(self, seconds: float) -> Answer | None:
        until = time.monotonic() + seconds
        while b"\r\n\r\n" not in self.got:
            if not self._more(until):
                if self.got and not self.got.startswith(b"HTTP/"):
                    raise Odd(f"no answer: {self.got[:80]!r}")
                return None
        head, _, rest = self.got.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ", 2)
        if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            raise Odd(f"no status line: {lines[0][:80]!r}")
        answer = Answer(int(words[1]), {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])})
        self.got = rest
        answer.body = self._body(answer, until)
        return answer

    def _body(self, answer: Answer, until: float) -> bytes:
        if answer.status < 200 or answer.status in (204, 304) or self.bodiless:
            self.bodiless = self.bodiless and answer.status < 200
            return b""
        if "chunked" in answer.fields.get("transfer-encoding", ""):
            return self._chunks(until)
        if "content-length" not in answer.fields:
            while self._more(until):
                pass
            body, self.got = self.got, b""
            return body
        length = int(answer.fields["content-length"])
        return self._take(length, until)

    def _take(self, length: int, until: float) -> bytes:
        while len(self.got) < length:
            if not self._more(until):
                raise Odd(f"a body of {length} bytes ends after {len(self.got)}")
        body, self.got = self.got[:length], self.got[length:]
        return body

    def _chunks(self, until: float) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self.got:
                if not self._more(until):
                    raise Odd("a chunk is cut off")
            size, _, self.got = self.got.partition(b"\r\n")
            chunk = self._take(int(size, 16) + 2, until)
            if int(size, 16) == 0:
                return body
            body += chunk[:-2]
